"""How the settings of one configuration differ from those of another, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """A setting that is asked to be another than it was."""

    at: str
    """Its dotted path."""
    old: Any
    new: Any

    @property
    def said(self) -> str:
        """How it is told to who asked for it."""
        old, new = _brief(self.old), _brief(self.new)
        return f"{self.at} is {old} there and {new} here"

    @property
    def noted(self) -> str:
        """How a file tells it later."""
        return f"{self.at} from {_brief(self.old)} to {_brief(self.new)}"


def all_said(differing: Sequence[Difference]) -> str:
    """Return the differences in one line."""
    return "; ".join(what.said for what in differing)


def _brief(value: Any) -> str:
    """Return a setting in a few words: of a table its kind and its numbers."""
    if not isinstance(value, dict):
        return repr(value)
    kind = value.get("kind", "")
    rest = [f"{k} {_brief(v)}" for k, v in value.items() if k != "kind"]
    return f"{kind} ({', '.join(rest)})" if rest else kind


def _are_alike(old: Any, new: Any) -> bool:
    """Say whether two settings are tables of one kind, to be compared by their keys."""
    tables = isinstance(old, dict) and isinstance(new, dict)
    return tables and old.get("kind") == new.get("kind")


def differences(
    stored: Mapping[str, Any], asked: Mapping[str, Any], at: str = ""
) -> list[Difference]:
    """Return what is different, key by key, in tables within tables as well."""
    found = []
    for key in sorted(stored.keys() | asked.keys()):
        old: Any = stored.get(key)
        new: Any = asked.get(key)
        if _are_alike(old, new):
            found += differences(old, new, f"{at}{key}.")
        elif old != new:
            found.append(Difference(f"{at}{key}", old, new))
    return found
