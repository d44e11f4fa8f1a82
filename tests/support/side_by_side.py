"""The same calls on several stores, which must all answer the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from louver.errors import LouverError
from louver.ledger.contract import Ledger

__all__ = ["Refused", "SideBySide"]


@dataclass(frozen=True)
class Refused:
    """An error that a store answered with; its type and its message."""

    kind: type[LouverError]
    message: str


class SideBySide:
    """
    Stores that are given the same calls.

    :param stores: by name; the first one is the model that the others are held against.
    """

    def __init__(self, stores: Mapping[str, Ledger]) -> None:
        self.stores = dict(stores)
        self.model = next(iter(self.stores.values()))

    def ask(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        """
        Call the operation of every store.

        :returns: the answer of all of them, or :class:`Refused` where all of them refused.
        :raises AssertionError: where one answers otherwise than the model does.
        """
        answers = {name: _answer(store, operation, args, kwargs) for name, store in self.stores.items()}
        first, *others = answers
        for other in others:
            # By what is shown as well: 1 and 1.0, or a text and a member of an enumeration, are equal.
            if answers[other] != answers[first] or repr(answers[other]) != repr(answers[first]):
                raise AssertionError(
                    f"{operation}: {first} and {other} differ\n{first}: {answers[first]!r}\n"
                    f"{other}: {answers[other]!r}"
                )
        return answers[first]


def _answer(store: Ledger, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return getattr(store, operation)(*args, **kwargs)
    except LouverError as error:
        return Refused(type(error), str(error))
