"""
Resources that a tag implies: whoever has the tag ``payments`` uses ``payments-api`` (semantics section 7).

So people who run a platform can put what many workflows do under one limit without changing each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from louver.errors import ConfigurationError, DefinitionError
from louver.resources import resources_in

__all__ = ["ResourceTags"]

_FORM = "write payments=payments-api:1, batch=licence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTags:
    """
    What each tag implies.

    :param by_tag: tag to resources, to units.
    """

    by_tag: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ResourceTags:
        """
        Read the setting.

        :param text: ``payments=payments-api:1, batch=licence, batch=db:2``: tag, resource and units, 1 where
            none are said; a tag may stand there for several resources. Empty for none.
        :raises ConfigurationError: saying which part cannot be read.
        """
        found: dict[str, dict[str, int]] = {}
        for part in filter(None, (entry.strip() for entry in text.split(","))):
            tag, equals, need = (piece.strip() for piece in part.partition("="))
            name, colon, units = (piece.strip() for piece in need.partition(":"))
            if not tag or not equals or not name or bool(colon) != bool(units):
                raise ConfigurationError(f"{part[:80]!r} says no resource of a tag; {_FORM}")
            needs = found.setdefault(tag, {})
            if name in needs:
                raise ConfigurationError(f"{part[:80]!r}: the tag has that resource already")
            needs[name] = _units(part, name, units or "1")
        return cls(by_tag=MappingProxyType({tag: MappingProxyType(needs) for tag, needs in found.items()}))

    def implied(self, tags: Iterable[str]) -> Mapping[str, int]:
        """
        What whoever has these tags uses.

        Where several imply the same resource, the most units count: the tags say what something is, and not
        how often.
        """
        needs: dict[str, int] = {}
        for tag in tags:
            for name, units in self.by_tag.get(tag, {}).items():
                needs[name] = max(units, needs.get(name, 0))
        return needs

    def tags_of(self, resource: str) -> tuple[str, ...]:
        """The tags that imply a resource, sorted."""
        return tuple(sorted(tag for tag, needs in self.by_tag.items() if resource in needs))


def _units(part: str, name: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    try:
        return resources_in({name: number}, node="")[name]
    except DefinitionError as error:
        raise ConfigurationError(f"{part[:80]!r}: {error.reason}") from None
