"""Pages are up to date, lead somewhere, are short, and README has no figure of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from harness.model.events import FaultPhase, Outcome
from tests.docs import pages, reference
from tests.docs.links import CODE, dead_links
from tests.docs.pages import ROOT, generated, parts_of, rewritten
from tests.docs.reference import documented
from tests.docs.tables import Table

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = {
    "README.md": 120,
    "ARCHITECTURE.md": 80,
    "CONTRIBUTING.md": 30,
}
_FIGURE = re.compile(r"\d[\d.,]* ?(?:s|ms|min|MB|GB|%|cells|seeds|runs|of \d+)\b")


def figures(text: str) -> list[str]:
    """Return the figures that a text has outside of code and of its generated parts."""
    return _FIGURE.findall(CODE.sub("", pages.MARK.sub("", text)))


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(dead_links(page)) == []


def test_what_is_generated_is_up_to_date() -> None:
    """Else: ``python -m tests.docs``."""
    stale = [
        str(page.relative_to(ROOT))
        for page, text in pages.wanted().items()
        if not page.exists() or page.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "python -m tests.docs"


def test_a_generated_page_that_nothing_makes_any_more_is_found() -> None:
    """What lies in ``docs/reference`` is made, all of it."""
    assert sorted(pages.REFERENCE.rglob("*.md")) == sorted(generated())


def test_every_part_is_made_by_something() -> None:
    """A name that is misspelt would never be made anew; a part that stands nowhere is dead code."""
    found = [name for page in pages.pages() for name in parts_of(page)]
    assert {name for name in found if not name.startswith(("table ", "source "))} == {
        *pages.PARTS,
        "points",
    }
    made = [name for name in found if pages.table(name) is None and name != "points"]
    assert [name for name in made if pages.part(name) is None] == []
    assert [
        name
        for name in found
        if name.startswith("table ") and not Table(*name[6:].split("/")).scenarios()
    ] == []


def test_a_part_that_was_touched_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n<!-- suites -->\n<!-- /suites -->\n\n more\n", encoding="utf-8")
    page.write_text(rewritten(page), encoding="utf-8")
    right = page.read_text(encoding="utf-8")
    assert rewritten(page) == right
    page.write_text(re.sub(r"\d+", "7", right), encoding="utf-8")
    assert rewritten(page) == right


@pytest.mark.parametrize("name", LONGEST)
def test_no_page_is_too_long(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= LONGEST[name]


def test_no_release_of_the_changelog_is_too_long() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = text.split("\n## ")[1:]
    assert releases
    assert [each.splitlines()[0] for each in releases if len(each.splitlines()) > 150] == []


def test_readme_has_no_figure_of_its_own() -> None:
    """Each is in a generated part, which comes from a committed run; what it takes to install is in
    code or words.
    """
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
    assert figures(text) == found


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text(
        "# A heading, `with` code\n\n## Twice\n\n## Twice\n", encoding="utf-8"
    )
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](gone.md) [c](other.md#a-heading-with-code) [d](other.md#gone) "
        "[e](#here) [f](#there) [g](other.md#twice-1) `[h](no-link.md)`\n",
        encoding="utf-8",
    )
    assert list(dead_links(page)) == ["gone.md", "other.md#gone", "#there"]


def test_names_and_their_words_are_read_from_source() -> None:
    """A section, a name with its value and its docstring, and a name without one."""
    source = '# --- the wire ---\nA: Final = "a"\n"""One."""\nB: int = 1\n'
    assert list(documented(source)) == [("", None, "the wire"), ("A", "a", "One."), ("B", None, "")]


_NAMED = re.compile(r"`((?:harness|scenarios|tests|examples|docs)/[\w./-]+?)(?:::\w+|/)?`")
_SETTING = re.compile(r"`([\w.]{4,})` in `([\w/]+\.py)`")


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "extending").glob("*.md")), ids=lambda page: page.stem
)
def test_what_extending_names_is_there(page: Path) -> None:
    """Every file and folder, and every registry in its file: who adds something looks for them."""
    text = page.read_text(encoding="utf-8")
    assert [name for name in _NAMED.findall(text) if not (ROOT / name).exists()] == []
    found = _SETTING.findall(text)
    assert [
        (name, file)
        for name, file in found
        if not re.search(
            rf"\b{name.rpartition('.')[2]}\b", (ROOT / file).read_text(encoding="utf-8")
        )
    ] == []
    assert found or page.stem == "engine"


def test_a_file_that_is_not_there_is_seen() -> None:
    assert _NAMED.findall(
        "`harness/gone.py`, `tests/contract/`, `tests/a.py::test_b`, `docs`, `harness x`"
    ) == [
        "harness/gone.py",
        "tests/contract",
        "tests/a.py",
    ]
    assert _SETTING.findall("`FAULTS` in `harness/faults/__init__.py`") == [
        ("FAULTS", "harness/faults/__init__.py")
    ]


def test_every_field_of_an_event_says_what_its_value_is() -> None:
    """By its type, and by all values of an enumeration: any other voids the cell."""
    page = reference.event_page()
    fields = [line for line in page.splitlines() if line.startswith("- `")]
    assert len(fields) > 300
    assert [line for line in fields if not re.match(r"- `[\w-]+` \([^()]+\)(: |$)", line)] == []
    assert "- `phase` (`begun`, `completed` or `failed`, required)\n" in page
    assert "- `message-id` (text or null)\n" in page
    assert "- `members` (list of [whole number, text, text]): " in page
    for value in FaultPhase:
        assert re.search(rf"^- `phase` \(text, required\): .*`{value}`", page, re.MULTILINE), value


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (int | None, "whole number or null"),
        (int | float, "number"),
        (bool | int | None, "true, false, whole number or null"),
        (tuple[str | None, ...], "list of texts or nulls"),
        (dict[str, dict[str, Any]], "object of objects"),
        (dict[str, Any] | None, "object or null"),
        (Outcome | None, "`taken`, `refused` or null"),
        (str | msgspec.UnsetType | None, "text or null"),
    ],
)
def test_types_have_plain_names(kind: Any, said: str) -> None:
    """As a reader of the page knows them from JSON."""
    assert reference.said_of(kind) == said


def test_every_field_and_event_is_explained() -> None:
    """A field of a declaration without a docstring would be an empty line of its page; so would a
    kind of event.
    """
    fields = [line for line in reference.declaration_page().splitlines() if line.startswith("| `")]
    assert len(fields) > 60
    assert [line for line in fields if line.endswith("|  |")] == []
    assert not re.search(r"^### \w+\n\n+#", reference.event_page(), re.MULTILINE)


@pytest.mark.parametrize(
    ("value", "said"), [(True, "yes"), (False, ""), (None, ""), (0, "`0`"), (["a", 1], "`a`, `1`")]
)
def test_a_default_is_said_where_there_is_one(value: Any, said: str) -> None:
    """Nought is one; that a flag is off need not be said."""
    assert reference._default(value) == said
