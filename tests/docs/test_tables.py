"""Tables of what was measured: a run's counts are kept, and shown with all their seeds
and notes.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.provision.inside_pyspark import pyspark_version
from harness.provision.kafka import VERSION as KAFKA
from harness.systems.streams.install import VERSION as STREAMS
from tests.docs import measured, pages, tables
from tests.docs.published import PUBLISHED
from tests.docs.tables import BY_HAND, Notes, Table, WrongNoteError

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

STORM = Table("storm", "storm-kafka-client", "storm-topology", "storm")
EMITTED = "storm/storm-kafka-client/storm-topology/storm-crash-after-emit/at-most-once"


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository in which nothing was measured."""
    monkeypatch.setattr(measured, "ENGINES", tmp_path / "engines")
    monkeypatch.setattr(measured, "PUBLISHED", tmp_path)
    monkeypatch.setattr(tables, "as_predicted", dict)
    (tmp_path / "clients").mkdir()
    for file in (tmp_path / "report.json", tmp_path / "clients" / "report.json"):
        file.write_text('{"run": {"started": "2026-01-01T"}, "cells": []}', encoding="utf-8")
    measured.measured.cache_clear()
    yield tmp_path
    measured.measured.cache_clear()


def run_with(
    folder: Path,
    name: str = EMITTED,
    *,
    seed: int = 1,
    outcome: str = "kept",
    version: str = "2.8.3",
    lost: int = 0,
    **more: int,
) -> Path:
    """Write the report of a run with one cell; return its folder."""
    parts = dict(
        zip(("system", "client", "pipeline", "scenario", "semantic"), name.split("/"), strict=True)
    )
    counts = {
        "lost": lost,
        "duplicated": 0,
        "left": 0,
        "set_aside": 0,
        "stalled": 0,
        "offered": 24,
        "outcome": outcome,
    } | more
    cell = {**parts, "runtime": "process", "seed": seed, "green": True, **counts}
    run = folder / f"run-{len(list(folder.iterdir()))}"
    run.mkdir()
    told = {
        "run": {"started": f"2026-02-0{seed}T00:00:00+00:00", "versions": {"storm": version}},
        "cells": [cell],
    }
    (run / "report.json").write_text(json.dumps(told), encoding="utf-8")
    return run


def line(table: Table, scenario: str) -> str:
    """Return a table's line about a scenario."""
    return next(each for each in table.text().splitlines() if each.startswith(f"| {scenario} "))


def test_a_later_run_of_a_cell_takes_the_place_of_the_earlier_one(engines: Path) -> None:
    """At the same seed; the last line says when, at which seeds, and how many cells."""
    measured.keep([run_with(engines, lost=7), run_with(engines, lost=1)])
    assert (
        line(STORM, "storm-crash-after-emit")
        == "| storm-crash-after-emit | 1 / 0 ✔ kept | *predicted 0* |"
    )
    assert (
        STORM.text()
        .splitlines()[-1]
        .startswith("Lost / duplicated. Measured on 2026-02-01: 1 cell at seed 1. *Predicted*")
    )


def test_a_void_run_takes_the_place_of_nothing_that_proves_more(engines: Path) -> None:
    """Whichever comes first; alone it is shown."""
    measured.keep([run_with(engines, outcome="void")])
    assert "∅ void" in line(STORM, "storm-crash-after-emit")
    measured.keep([run_with(engines, lost=2), run_with(engines, outcome="void")])
    assert "| 2 / 0 ✔ kept |" in line(STORM, "storm-crash-after-emit")


def test_several_seeds_show_their_range_and_who_differs(engines: Path) -> None:
    """Counts from the least to the most; an outcome that only some seeds have with their numbers. A
    void seed counts nothing.
    """
    measured.keep(
        [run_with(engines, seed=seed, lost=lost) for seed, lost in ((1, 3), (2, 1), (3, 2))]
    )
    measured.keep([run_with(engines, seed=5, outcome="stuck", lost=2)])
    assert "| 1 to 3 / 0 ✔ kept, ◐ stuck at seed 5 |" in line(STORM, "storm-crash-after-emit")
    measured.keep([run_with(engines, seed=6, outcome="void")])
    assert "| 1 to 3 / 0 ✔ kept, ◐ stuck at seed 5, ∅ void at seed 6 |" in line(
        STORM, "storm-crash-after-emit"
    )
    assert (
        "Measured from 2026-02-01 to 2026-02-06: 1 cell at seeds 1 to 3, 5 and 6. *to*: it differs"
        in STORM.text()
    )


def test_what_is_left_set_aside_or_stalled_is_shown_beside(engines: Path) -> None:
    """Where there is any. Counts that were kept before do not say what was set aside, and make
    nothing of it.
    """
    measured.keep(
        [
            run_with(engines, seed=1, left=2, set_aside=1),
            run_with(engines, seed=2, left=3, stalled=1),
        ]
    )
    assert "| 0 / 0, 2 to 3 left, 0 to 1 set aside, 0 to 1 stalled ✔ kept |" in line(
        STORM, "storm-crash-after-emit"
    )
    file = measured.ENGINES / "storm-storm-kafka-client.json"
    told = json.loads(file.read_text(encoding="utf-8"))
    told["cells"] = [
        {name: count for name, count in each.items() if name != "stalled"} for each in told["cells"]
    ]
    file.write_text(json.dumps(told), encoding="utf-8")
    measured.measured.cache_clear()
    assert "| 0 / 0, 2 to 3 left, 0 to 1 set aside ✔ kept |" in line(
        STORM, "storm-crash-after-emit"
    )


def test_a_run_of_another_version_is_refused(engines: Path) -> None:
    """Its counts would stand beside those of the version that the page names; nothing
    is written.
    """
    measured.keep([run_with(engines)])
    kept = (measured.ENGINES / "storm-storm-kafka-client.json").read_text(encoding="utf-8")
    with pytest.raises(
        measured.CannotKeepError, match=r"storm 2\.8\.3, the run is of 1\.2\.2: delete the file"
    ):
        measured.keep([run_with(engines, version="1.2.2")])
    assert (measured.ENGINES / "storm-storm-kafka-client.json").read_text(encoding="utf-8") == kept


def test_a_folder_without_a_report_is_refused(engines: Path) -> None:
    with pytest.raises(measured.CannotKeepError, match=r"has no report\.json"):
        measured.keep([engines / "gone"])


def test_what_is_known_without_counts_is_told_apart(
    engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engines.is_dir()
    assert "| *predicted L+* |" in line(STORM, "storm-crash-after-emit")
    monkeypatch.setattr(tables, "as_predicted", lambda: {EMITTED: {1: True}})
    assert "| *as predicted L+* |" in line(STORM, "storm-crash-after-emit")
    monkeypatch.setattr(tables, "as_predicted", lambda: {EMITTED: {1: True, 2: False}})
    assert "| *predicted L+* |" in line(STORM, "storm-crash-after-emit")


def test_a_table_waits_until_half_of_its_cells_have_counts(engines: Path) -> None:
    """Before that what stands there by hand says more; one run is enough for a small table."""
    small = Table("artemis", "core", "queue-by-id", "jms")
    known, all_cells = small.counted()
    assert (known, small.waits()) == (0, True)
    for scenario, semantic in product(small.lines(), small.columns()):
        measured.keep([run_with(engines, f"artemis/core/queue-by-id/{scenario}/{semantic}")])
        known, same = small.counted()
        assert same == all_cells
        assert small.waits() is (2 * known < all_cells)
        if not small.waits():
            break
    assert 2 * known in {all_cells, all_cells + 1}


def test_several_pipelines_and_last_words_are_columns() -> None:
    """One line for a scenario that they share, or for the settings that strikes share."""
    both = Table("streams", "kafka-streams", "streams-map,streams-dedup", "streams")
    semantics = ("at-least-once", "exactly-once")
    assert both.columns() == [
        f"{name} {each}" for name in ("streams-map", "streams-dedup") for each in semantics
    ]
    assert [name for name in both.lines() if name == "none"] == ["none"]
    durable = Table("kafka", "kafka-python", "plain", "durability", "last-word")
    assert durable.columns() == ["leader-killed", "power-lost", "power-lost-on-all"]
    assert all(name.startswith("durability+acks-") for name in durable.lines())


def test_notes_are_numbered_behind_the_cells_and_lines_they_are_about() -> None:
    """In the order in which they come up, after those on what does not apply."""
    text = STORM.text(
        "\nnone*: of each baseline,\n  and so on\nstorm-tuple-timeout/at-least-once: two come.\n"
    )
    assert "| none ¹ |" in text
    assert "| none+gaps ¹ | n/a ² |" in text
    tuples = next(each for each in text.splitlines() if each.startswith("| storm-tuple-timeout |"))
    assert tuples.endswith(" ⁴ |")
    assert "- ¹ of each baseline, and so on.\n" in text
    assert "- ⁴ two come.\n" in text


@pytest.mark.parametrize(
    ("notes", "wrong"),
    [
        ("storm-gone: text", "meant by the notes on storm-gone"),
        ("none, none/exactly-twice: text", "on none/exactly-twice"),
        ("no text", "a note is"),
        ("  first line that goes on", "a note is"),
    ],
)
def test_a_note_about_nothing_is_refused(notes: str, wrong: str) -> None:
    """A scenario that was renamed takes its note with it otherwise."""
    with pytest.raises(WrongNoteError, match=wrong):
        STORM.text(notes)


def test_notes_are_read_and_kept_when_a_page_is_made_anew(tmp_path: Path) -> None:
    name = "table kafka/kafka-python/plain/growing"
    page = tmp_path / "page.md"
    page.write_text(
        f"text\n\n<!-- {name}\npartitions-added: here.\n-->\n<!-- /{name} -->\n", encoding="utf-8"
    )
    made = pages.rewritten(page)
    assert made.startswith(f"text\n\n<!-- {name}\npartitions-added: here.\n-->\n\n| scenario |")
    assert "¹ here." in made
    page.write_text(made, encoding="utf-8")
    assert pages.rewritten(page) == made
    assert Notes.read("").told() == ""


MARKS = [
    (page, mark)
    for page in pages.pages()
    for mark in pages.MARK.finditer(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    ("page", "mark"), MARKS, ids=[f"{page.stem}-{mark[1]}" for page, mark in MARKS]
)
def test_what_stands_by_hand_says_so_and_its_notes_are_ready(
    page: Path, mark: re.Match[str]
) -> None:
    """Only a table whose run is not committed may; its notes are about cells that it has."""
    table = pages.table(mark[1])
    assert (BY_HAND in mark[3]) == (table is not None and table.waits()), page
    if table is not None:
        assert table.text(mark[2] or "")


def unproved(
    marks: dict[str, dict[str, bool]], published: dict[str, list[dict[str, Any]]]
) -> list[str]:
    """Return the marks of an engine with a file of counts that no committed sound run explains."""
    sound = {
        (cell["name"], str(cell["seed"]))
        for cells in published.values()
        for cell in cells
        if cell["outcome"] != "void"
    }
    files = set(published)
    return [
        f"{name}/s{seed}"
        for name, seeds in marks.items()
        for seed in seeds
        if "-".join(name.split("/")[:2]) in files and (name, seed) not in sound
    ]


def test_a_mark_without_a_sound_run_is_found() -> None:
    """Of an engine that has a file; a void run proves nothing."""
    cells = [
        {"name": EMITTED, "seed": 1, "outcome": "kept"},
        {"name": EMITTED, "seed": 2, "outcome": "void"},
    ]
    marks = {
        EMITTED: {"1": True, "2": True, "3": False},
        "kafka/x/plain/none/at-least-once": {"1": True},
    }
    assert unproved(marks, {"storm-storm-kafka-client": cells}) == [
        f"{EMITTED}/s2",
        f"{EMITTED}/s3",
    ]


def test_every_mark_of_the_common_points_has_its_run() -> None:
    """What ``docs/points.json`` says of an engine stands in ``reports/published``."""
    root = Path(__file__).parents[2]
    published = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))["cells"]
        for file in (root / "reports" / "published" / "engines").glob("*.json")
    }
    marks = json.loads((root / "docs" / "points.json").read_text(encoding="utf-8"))
    for folder in ("", "clients"):
        report = json.loads(
            (root / "reports" / "published" / folder / "report.json").read_text(encoding="utf-8")
        )
        for cell in report["cells"]:
            name = "/".join(
                cell[part] for part in ("system", "client", "pipeline", "scenario", "semantic")
            )
            published.setdefault("-".join(name.split("/")[:2]), []).append({**cell, "name": name})
    assert unproved(marks, published) == []


def test_all_counts_are_of_the_versions_that_lostack_runs() -> None:
    defaults = {"kafka": KAFKA, "kafka-streams": STREAMS, "spark": pyspark_version()}
    files = (
        PUBLISHED / "report.json",
        PUBLISHED / "clients" / "report.json",
        *sorted((PUBLISHED / "engines").glob("*.json")),
    )
    stale = []
    for file in files:
        told = json.loads(file.read_text(encoding="utf-8"))
        versions = told.get("versions") or told["run"]["versions"]
        stale += [
            f"{file.name}: {name} {versions[name]}, not {version}"
            for name, version in defaults.items()
            if versions.get(name, version) != version
        ]
    assert stale == []
