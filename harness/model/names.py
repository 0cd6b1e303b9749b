"""Names that work like members of an enum, but engines can add their own."""

from __future__ import annotations

from typing import ClassVar, Self


class Name(str):
    """A name. Equal names of a class are one object, so they can be compared by ``is``, like
    members of an enum.
    """

    __slots__ = ()
    _known: ClassVar[dict[type, dict[str, Name]]] = {}

    def __new__(cls, name: str) -> Self:
        """Return the object of this name; make it if there is none yet."""
        known = Name._known.setdefault(cls, {})
        if name not in known:
            known.setdefault(str(name), super().__new__(cls, name))
        found = known[name]
        if not isinstance(found, cls):
            raise TypeError(f"{name} is already a {type(found).__name__}, not a {cls.__name__}")
        return found
