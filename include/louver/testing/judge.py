"""How a check complains: by one error of its own, so that it works under ``python -O`` and without pytest."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread
from typing import TypeVar

__all__ = ["ContractBroken", "Judge"]

T = TypeVar("T")
_E = TypeVar("_E", bound=Exception)

_TURNS_SECONDS = 60.0


class ContractBroken(AssertionError):
    """
    The store does not keep the contract.

    :param name: of the check that found it.
    :param what: what should hold, and what was found instead.
    """

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what
        super().__init__(f"{name}: {what}")


class Judge:
    """
    Says what should hold, and complains in the name of the check where it does not.

    :param name: of the check.
    """

    def __init__(self, *, name: str) -> None:
        self.name = name

    def holds(self, truth: bool, what: str) -> None:
        """
        Go on if it is true.

        :raises ContractBroken: where it is not.
        """
        if not truth:
            raise ContractBroken(self.name, what)

    def equal(self, found: object, expected: object, what: str) -> None:
        """
        Go on if both are equal and of one type.

        :raises ContractBroken: where they are not.
        """
        if found != expected or type(found) is not type(expected):
            raise ContractBroken(self.name, f"{what}: expected {expected!r}, found {found!r}")

    def found(self, value: T | None, what: str) -> T:
        """
        The value, which must be there.

        :raises ContractBroken: where it is None.
        """
        if value is None:
            raise ContractBroken(self.name, f"{what}: it is not there")
        return value

    def refused(self, kind: type[_E], action: Callable[[], object], what: str) -> _E:
        """
        The error of this kind that the action must end in.

        :raises ContractBroken: where it ends in another one, or in none.
        """
        try:
            action()
        except kind as error:
            return error
        except Exception as error:
            raise ContractBroken(
                self.name, f"{what}: expected {kind.__name__}, found {type(error).__name__}: {error}"
            ) from error
        raise ContractBroken(self.name, f"{what}: expected {kind.__name__}, but nothing was raised")

    def at_once(self, *actions: Callable[[], T]) -> list[T | Exception]:
        """
        What the actions return or raise, each in a thread of its own, let go at the same moment.

        :raises ContractBroken: where one of them does not come to an end.
        """
        gate = Barrier(len(actions))
        results: dict[int, T | Exception] = {}

        def act(number: int, action: Callable[[], T]) -> None:
            gate.wait(_TURNS_SECONDS)
            try:
                results[number] = action()
            except Exception as error:
                results[number] = error

        threads = [
            Thread(target=act, args=(number, action), daemon=True) for number, action in enumerate(actions)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_TURNS_SECONDS)
        if len(results) < len(actions):
            raise ContractBroken(self.name, "two processes at once must both come to an end")
        return [results[number] for number in range(len(actions))]

    def all_of(self, results: list[T | Exception]) -> list[T]:
        """
        What :meth:`at_once` returned, where nothing may be refused.

        :raises ContractBroken: where something was.
        """
        values = []
        for result in results:
            if isinstance(result, Exception):
                what = f"two processes at once: expected no refusal, found {type(result).__name__}: {result}"
                raise ContractBroken(self.name, what) from result
            values.append(result)
        return values

    def one_of(self, results: list[T | Exception], refusal: type[Exception]) -> tuple[int, T]:
        """
        Which of two came first, and what it was given, where the other is refused.

        :raises ContractBroken: where both came through, or another error was raised.
        """
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, refusal):
                what = f"two processes at once: expected {refusal.__name__}, found {result!r}"
                raise ContractBroken(self.name, what) from result
        passed = [(n, result) for n, result in enumerate(results) if not isinstance(result, Exception)]
        if len(passed) != 1:
            raise ContractBroken(self.name, f"two processes at once: {len(passed)} came through, not one")
        return passed[0]
