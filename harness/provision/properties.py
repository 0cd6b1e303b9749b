"""Files of properties, as Java reads them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_ESCAPES: Final = {
    ord(each): said
    for each, said in (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"), ("\f", r"\f"))
}
_DELETE: Final = 0x7F


def properties_file(properties: Mapping[str, str]) -> str:
    r"""Return a file of properties. Java reads it in Latin-1: here it is in ASCII alone.

    >>> print(properties_file({"a": "C:\\b", "d": "jürgen"}))
    a=C:\\b
    d=j\u00fcrgen
    <BLANKLINE>

    Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html
    """
    return "".join(f"{_said(name, ' :=#!')}={_said(text)}\n" for name, text in properties.items())


def _said(text: str, escaped: str = "") -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    said = "".join(
        _ESCAPES.get(unit)
        or (f"\\{chr(unit)}" if chr(unit) in escaped else "")
        or (chr(unit) if unit < _DELETE else f"\\u{unit:04x}")
        for (unit,) in struct.iter_unpack(">H", units)
    )
    return f"\\{said}" if said.startswith(" ") else said
