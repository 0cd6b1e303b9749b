"""The type of a sign: the name of what a history must show of a protection, and its words."""

from __future__ import annotations

from typing import Self


class Sign(str):
    """The name of what a cell's history must show if it predicts zero. ``words``: what a record
    with this sign proves.
    """

    __slots__ = ("words",)
    words: str

    def __new__(cls, name: str, words: str = "") -> Self:
        """Make a sign from its name and its words."""
        sign = super().__new__(cls, name)
        sign.words = words
        return sign
