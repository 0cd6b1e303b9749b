"""Names of which there are more than are known here: an engine adds its own."""

from __future__ import annotations

from typing import ClassVar, Self


class Name(str):
    """A name. Equal ones of a class are one object, so that they may be compared by ``is``, as members of an enum are."""

    __slots__ = ()
    _known: ClassVar[dict[type, dict[str, Name]]] = {}

    def __new__(cls, name: str) -> Self:
        """Return the name; the one there is already, where there is one."""
        known = Name._known.setdefault(cls, {})
        if name not in known:
            known.setdefault(str(name), super().__new__(cls, name))
        found = known[name]
        if not isinstance(found, cls):
            raise TypeError(f"{name} is a name of another kind")
        return found
