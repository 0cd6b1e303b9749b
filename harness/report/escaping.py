"""Makes text of unknown origin (record ids, log lines, reasons) safe for the places
that show it.
"""

from __future__ import annotations

import re
import unicodedata

from harness.model.secrets import masked

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, turn the direction of writing, or are illegal in XML."""
_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~$&@]|:(?=//)|(?<=www)\.")
"""Characters that have a meaning in Markdown; the last two would make links of addresses."""
_TICKS = re.compile(r"`+")


def visible(text: str) -> str:
    r"""Return one line in which every character is visible; an invisible one is written as its
    number.

    >>> print(visible("a\nb\x1b[31m\u202e"))
    a\x0ab\x1b[31m\u202e
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _number(char) if unicodedata.category(char) in _UNSEEN else char for char in text
    )


def shown(text: str) -> str:
    r"""Return one line without secrets, in which every character is visible.

    >>> print(shown("password=hunter2\n"))
    password=***\x0a
    """
    return visible(masked(text))


def lines_shown(text: str) -> str:
    r"""Return a text without secrets, in which every character but the line breaks is visible.

    >>> print(lines_shown("a\r\n\x1b[2Jb"))
    a\x0d
    \x1b[2Jb
    """
    return "\n".join(map(visible, masked(text).split("\n")))


def visible_json(text: str) -> str:
    r"""Return JSON as JSON of the same value, in which every character but the line breaks is
    visible.

    >>> print(visible_json('"a\u009b\U000e0001"'))
    "a\u009b\udb40\udc01"
    """
    return "\n".join("".join(map(_json_number, line)) for line in text.split("\n"))


def _json_number(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) not in _UNSEEN:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _number(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:  # noqa: PLR2004 - the two-digit escapes
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the four-digit escapes


def markdown(text: str) -> str:
    r"""Return text that Markdown shows as it is, inside a paragraph or a table.

    >>> print(markdown("k1-7 | <b>"))
    k1-7 \| \<b\>
    """
    return _MARKDOWN.sub(lambda found: "\\" + found[0], visible(text))


def code(text: str) -> str:
    """Return a Markdown code span that holds exactly ``text`` (outside tables).

    >>> code("a`b")
    '`` a`b ``'
    """
    text = visible(text)
    if "`" not in text:
        return f"`{text}`" if text.strip() else "` `"
    fence = "`" * (max(len(ticks) for ticks in _TICKS.findall(text)) + 1)
    return f"{fence} {text} {fence}"
