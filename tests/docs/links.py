"""The links of a page, and the headings to which a link may lead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_BLOCK: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead to a file or a heading of this repository."""
    for link in _LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in link:
            yield link


def anchor(heading: str, _: str = "-") -> str:
    """Return the anchor that a forge makes of a heading.

    >>> anchor("What *kept* does not say, `--all`")
    'what-kept-does-not-say---all'
    """
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return what a link may name behind ``#``: the headings of a page, as a forge makes anchors of
    them.
    """
    found: set[str] = set()
    for heading in _HEADING.findall(_BLOCK.sub("", text)):
        name = anchor(heading)
        at = 0
        while (numbered := f"{name}-{at}" if at else name) in found:
            at += 1
        found.add(numbered)
    return found


def dead_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead to no file, or to no heading, of this repository."""
    for link in links(page):
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (
            heading
            and target.suffix == ".md"
            and heading not in anchors(target.read_text(encoding="utf-8"))
        ):
            yield link
