"""Pages are up to date, lead somewhere, are short, and README has no figure of its own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs import measured, pages, reference
from tests.docs.pages import ROOT, generated, parts_of, rewritten
from tests.docs.reference import documented

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LONGEST = {"README.md": 150, "ARCHITECTURE.md": 80}
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PART = re.compile(r"<!-- ([\w/ .-]+) -->.*?<!-- /\1 -->", re.DOTALL)
_FIGURE = re.compile(r"\d[\d.,]* ?(?:s|ms|min|MB|GB|%|cells|seeds|runs|of \d+)\b")


def anchors(text: str) -> set[str]:
    """Return what a link may name behind ``#``: the headings of a page, as a forge makes anchors of them."""
    found: set[str] = set()
    for heading in _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        at = 0
        while (numbered := f"{name}-{at}" if at else name) in found:
            at += 1
        found.add(numbered)
    return found


def dead_links(page: Path) -> Iterable[str]:
    """Yield the links of a page that lead to no file, or to no heading, of this repository."""
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        heading = {anchor} if anchor and target.suffix == ".md" else set()
        if not target.exists() or (heading and heading - anchors(target.read_text(encoding="utf-8"))):
            yield link


def figures(text: str) -> list[str]:
    """Return the figures that a text has outside of code and of its generated parts."""
    return _FIGURE.findall(_CODE.sub("", _PART.sub("", text)))


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file of this repository, and to a heading that is there."""
    assert list(dead_links(page)) == []


def test_what_is_generated_is_up_to_date() -> None:
    """Else: ``python -m tests.docs``."""
    stale = [
        str(page.relative_to(ROOT)) for page, text in pages.wanted().items()
        if not page.exists() or page.read_text(encoding="utf-8") != text
    ]  # fmt: skip
    assert stale == [], "python -m tests.docs"


def test_a_generated_page_that_nothing_makes_any_more_is_found() -> None:
    """What lies in ``docs/reference`` is made, all of it."""
    assert sorted(pages.REFERENCE.rglob("*.md")) == sorted(generated())


def test_every_part_is_made_by_something() -> None:
    """A name that is misspelt would never be made anew; a part that stands nowhere is dead code."""
    found = [name for page in pages.pages() for name in parts_of(page)]
    assert {name for name in found if not name.startswith("table ")} == {*pages.PARTS, "points"}
    assert [name for name in found if pages.part(name) is None] == ["points"]
    assert [name for name in found if name.startswith("table ") and "scenario |" not in (pages.part(name) or "")] == []


def test_a_part_that_was_touched_is_found_out(tmp_path: Path) -> None:
    """One number changed by hand."""
    page = tmp_path / "page.md"
    page.write_text("text\n\n<!-- suites -->\n<!-- /suites -->\n\n more\n", encoding="utf-8")
    page.write_text(rewritten(page), encoding="utf-8")
    right = page.read_text(encoding="utf-8")
    assert rewritten(page) == right
    page.write_text(re.sub(r"\d+", "7", right), encoding="utf-8")
    assert rewritten(page) == right


@pytest.mark.parametrize("name", LONGEST)
def test_no_page_is_too_long(name: str) -> None:
    """What everybody reads first is short."""
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= LONGEST[name]


def test_readme_has_no_figure_of_its_own() -> None:
    """Each is in a generated part, which comes from a committed run; what it takes to install is in code or words."""
    assert figures((ROOT / "README.md").read_text(encoding="utf-8")) == ["3 GB"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it took 4 min, 20 of 20", ["4 min", "20 of 20"]),
        ("seed 1, Kafka 4.3.0, `5 cells`", []),
        ("<!-- a -->\n5 cells\n<!-- /a -->\n```\n6 cells\n```\n7 cells", ["7 cells"]),
    ],
)
def test_a_figure_is_seen(text: str, found: list[str]) -> None:
    """The test above can fail."""
    assert figures(text) == found


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    """A file that is not there, and a heading that is not."""
    (tmp_path / "other.md").write_text("# A heading, `with` code\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](gone.md) [c](other.md#a-heading-with-code) [d](other.md#gone) [e](#here) [f](#there) "
        "[g](other.md#twice-1) `[h](no-link.md)`\n",
        encoding="utf-8",
    )
    assert list(dead_links(page)) == ["gone.md", "other.md#gone", "#there"]


def test_names_and_their_words_are_read_from_source() -> None:
    """A section, a name with its value and its docstring, and a name without one."""
    source = '# --- the wire ---\nA: Final = "a"\n"""One."""\nB: int = 1\n'
    assert list(documented(source)) == [("", None, "the wire"), ("A", "a", "One."), ("B", None, "")]


def test_the_counts_of_a_run_are_kept_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's report becomes lines of the table; a later run of a cell takes the place of the earlier one."""
    monkeypatch.setattr(measured, "ENGINES", tmp_path / "engines")
    monkeypatch.setattr(measured, "PUBLISHED", tmp_path)
    (tmp_path / "clients").mkdir()
    for file in (tmp_path / "report.json", tmp_path / "clients" / "report.json"):
        file.write_text('{"run": {"started": "2026-01-01T"}, "cells": []}', encoding="utf-8")
    for day, lost in (("2026-02-01", 7), ("2026-02-02", 1)):
        (tmp_path / day).mkdir()
        (tmp_path / day / "report.json").write_text(json.dumps(run_with(day, lost)), encoding="utf-8")
        measured.keep([tmp_path / day])
    try:
        lines = measured.Table("storm", "storm-kafka-client", "storm-topology", "storm").text().splitlines()
    finally:
        measured.measured.cache_clear()
    assert "| storm-crash-after-emit | 1 / 0 ✔ kept | *predicted 0* |" in lines
    assert lines[-1].startswith("Lost / duplicated. Measured on 2026-02-02, seed 1, 1 cells.")


def run_with(day: str, lost: int) -> dict[str, object]:
    """Return what a report says of a run with one cell."""
    cell = {
        "system": "storm", "client": "storm-kafka-client", "pipeline": "storm-topology", "scenario": "storm-crash-after-emit",
        "semantic": "at-most-once", "runtime": "process", "seed": 1, "lost": lost, "duplicated": 0, "left": 0, "offered": 24,
        "outcome": "kept",
    }  # fmt: skip
    return {"run": {"started": f"{day}T00:00:00+00:00", "versions": {"storm": "2.8.3"}}, "cells": [cell]}


def test_every_field_and_event_is_explained() -> None:
    """A field of a declaration without a docstring would be an empty line of its page; so would a kind of event."""
    fields = [line for line in reference.declaration_page().splitlines() if line.startswith("| `")]
    assert len(fields) > 60
    assert [line for line in fields if line.endswith("|  |")] == []
    assert not re.search(r"^### \w+\n\n+#", reference.event_page(), re.MULTILINE)
