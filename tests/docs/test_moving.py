"""The moving picture shows a recorded run of ``lostack demo``, in the words of this version."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.cli import demo
from harness.cli.narrating import Story
from harness.model.history import HISTORY, read_history
from harness.saved import judge_cell
from tests.docs.moving import LONGEST_S, PICTURE, ROW, ROWS, drawn, wrapped
from tests.docs.recording import COMMAND, Recording
from tests.docs.test_project import project
from tests.gate.saved import HERE, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

SET_UP = "   starting "
"""How a line about the set-up begins. A history does not have these."""


def texts(picture: str) -> list[str]:
    """Return the rows of a picture, in their order."""
    found = ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return [each.text or "" for each in found if "x" not in each.attrib]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Unpack the histories of the recorded run."""
    return unpack(HERE / "demo.tar.xz", tmp_path_factory.mktemp("demo"))


def told_again(cells: list[Path], ending: str) -> Iterator[str]:
    """Yield what this version prints of the recorded run, without its lines about the set-up.

    ``ending``: the recorded line that names the seconds and the report.
    """
    folder = Path("lostack-demo")
    demo.copy_programs(folder)
    yield from demo.introduction(folder)
    for heading, cell in zip(demo.HEADINGS, cells, strict=True):
        yield heading
        events = sorted(read_history(cell / HISTORY).events, key=lambda each: each.t)
        yield from filter(None, map(Story().line, events))
        yield from demo.ended(judge_cell(cell))
    seconds, page = re.match(r"(\d+) s\. .*: (\S+)$", ending).groups()  # type: ignore[union-attr]
    yield from demo.ending(folder, Path(page), float(seconds))


def recorded() -> list[str]:
    """Return the recorded lines, without those about the set-up."""
    return [text for _, text in Recording.read().lines if not text.startswith(SET_UP)]


def test_the_recording_is_in_the_words_of_this_version(
    cells: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is made again from the histories of the recorded run. Else: ``make picture``."""
    monkeypatch.chdir(tmp_path)
    assert list(told_again(cells, recorded()[-3])) == recorded()
    assert Recording.read().about["title"] == f"lostack {project()['version']}: lostack demo"


def test_another_word_of_the_demo_is_noticed(
    cells: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: by a heading, and by a line of the story."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "HEADINGS", ("1  Nothing breaks.", *demo.HEADINGS[1:]))
    told = list(told_again(cells, recorded()[-3]))
    assert [line for line, was in zip(told, recorded(), strict=True) if line != was] == [
        "1  Nothing breaks."
    ]


def test_the_picture_shows_the_recorded_lines() -> None:
    """All of them, in their order, behind the command. A long line has several rows."""
    recording = Recording.read()
    rows = texts(PICTURE.read_text(encoding="utf-8"))
    assert rows[0] == f"$ {' '.join(COMMAND)}"
    assert "".join(rows[1:]) == "".join(text for _, text in recording.lines)
    assert PICTURE.read_text(encoding="utf-8") == drawn(recording)


def test_a_line_that_was_not_recorded_is_noticed() -> None:
    recording = Recording.read()
    other = replace(recording, lines=(*recording.lines, (99.0, "never said")))
    assert texts(drawn(other)) != texts(drawn(recording))


def test_only_silences_are_shortened() -> None:
    """No row comes before its line, or before the row above it."""
    recording = Recording.read()
    rows = [at for at, _ in wrapped(recording)]
    assert rows == sorted(rows)
    assert max(now - before for before, now in pairwise(rows)) <= LONGEST_S + 0.1


def test_a_row_that_has_left_is_out_of_sight() -> None:
    """Its letters end at the upper edge, and the last row's at the lower one."""
    svg = "{http://www.w3.org/2000/svg}"
    window = ET.fromstring(PICTURE.read_text(encoding="utf-8")).find(f"{svg}svg")
    assert window is not None
    feet = [float(each.attrib["y"]) + 0.3 * ROW for each in window.iter(f"{svg}text")]
    gone = ROW * (len(feet) - ROWS)
    assert feet[len(feet) - ROWS - 1] <= gone + 1
    assert feet[-1] <= gone + float(window.attrib["height"])
