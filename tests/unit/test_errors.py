"""One tree of errors, drawn where it is defined."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo

import pytest

from louver import errors
from louver.errors import (
    ConfigurationError,
    DefinitionError,
    EffectInProgress,
    EventConflict,
    EventRejected,
    LedgerClosed,
    LouverError,
    ValueRefused,
    describe,
    require_aware,
    require_text,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def drawn() -> Iterator[tuple[str, str]]:
    """Each error of the drawing with the one it hangs on."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+)( {2,}\S.*)?$", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        del above[depth:]
        yield found[2], above[-1] if above else "Exception"
        above.append(found[2])


def defined() -> Iterator[tuple[str, str]]:
    for name, value in vars(errors).items():
        if (
            inspect.isclass(value)
            and issubclass(value, BaseException)
            and value.__module__ == errors.__name__
        ):
            bases = [base.__name__ for base in value.__bases__]
            yield name, ", ".join(bases)


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    tree = dict(drawn())
    assert tree == dict(defined())
    assert len(tree) > 25
    assert tree["LouverError"] == "Exception"


def test_every_error_is_public() -> None:
    assert set(dict(defined())) <= set(errors.__all__)


@pytest.mark.parametrize("name", sorted(dict(defined())))
def test_every_error_says_what_it_means_in_one_line(name: str) -> None:
    kind = getattr(errors, name)
    assert inspect.getdoc(kind).splitlines()[0].endswith((".", ";"))


def test_the_docstring_is_the_default_message() -> None:
    assert str(LedgerClosed()) == "The ledger was closed; open it again."
    assert str(LedgerClosed("gone")) == "gone"
    assert str(LouverError()) == "Louver refused to go on."


def test_a_definition_error_names_its_place() -> None:
    error = DefinitionError("must be positive", node="pay", attribute="retry")
    assert str(error) == "step 'pay', attribute 'retry': must be positive"
    within = error.within("order.json")
    assert str(within) == "order.json, step 'pay', attribute 'retry': must be positive"
    assert (within.reason, within.source, within.node, within.attribute) == (
        "must be positive",
        "order.json",
        "pay",
        "retry",
    )
    assert str(DefinitionError("is empty")) == "is empty"


def test_errors_carry_what_their_handlers_need() -> None:
    assert EffectInProgress("busy", until=NOW).until == NOW
    assert (ValueRefused("$.a[1]", "is no number").path, str(ValueRefused("$.a[1]", "is no number"))) == (
        "$.a[1]",
        "$.a[1]: is no number",
    )
    assert str(EventRejected("time", "is no date")) == "event attribute 'time': is no date"
    assert str(EventRejected(None, "is no object")) == "event: is no object"
    conflict = EventConflict("evt-1")
    assert (conflict.run_id, conflict.attribute) == ("evt-1", "id")
    assert "evt-1" in str(conflict)


def test_a_foreign_errors_text_is_never_written_down() -> None:
    """Row O9: it may hold payload."""
    assert describe(ValueError("card 4111 1111 1111 1111")) == "ValueError"
    assert describe(LedgerClosed("gone")) == "gone"


class NoOffset(tzinfo):
    """A zone that does not know its own offset."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None


def test_require_aware() -> None:
    assert require_aware("start", NOW) is NOW
    for naive in (NOW.replace(tzinfo=None), NOW.replace(tzinfo=NoOffset())):
        with pytest.raises(ConfigurationError, match="start must be an aware datetime"):
            require_aware("start", naive)


def test_require_text() -> None:
    assert require_text("name", "pay") == "pay"
    for wrong in ("", None, 7, b"pay"):
        with pytest.raises(ConfigurationError, match="name must be a non-empty string"):
            require_text("name", wrong)


@pytest.mark.parametrize(
    "error",
    [
        errors.DefinitionError("no", source="a.json", node="pay", attribute="task"),
        errors.EventRejected("id", "is missing"),
        errors.EventConflict("run-1"),
        errors.ValueRefused("$.a", "is none"),
        errors.EffectInProgress("busy", until=datetime(2026, 3, 1, tzinfo=timezone.utc)),
        errors.ApprovalStale("the payload"),
        errors.Superseded(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_to_another_process(error: errors.LouverError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_subclass_without_a_docstring_has_a_message() -> None:
    class Odd(errors.LouverError):
        pass

    assert str(Odd()) == "Odd"


def test_what_is_written_down_fits_every_store() -> None:
    text = errors.describe(errors.ConfigurationError("a\0b\ud800" + "x" * 2000))
    assert text.startswith("a\\0b\\ud800xxx")
    assert len(text) == 1000
    text.encode("utf-8")
