"""The name of a sign that a protection worked (design, section 3)."""

from __future__ import annotations

from typing import Self


class Sign(str):
    """What must be seen in a cell that predicts zero: its name, by which a plan saves it, and ``words`` about "this record"."""

    __slots__ = ("words",)
    words: str

    def __new__(cls, name: str, words: str = "") -> Self:
        """Name a sign, and say what it means that a record shows it."""
        sign = super().__new__(cls, name)
        sign.words = words
        return sign
