"""What is committed of a run: its three files say the same, and nothing of the machine they come
from.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import harness.report.publishing
from harness.judge.verdict import Kind
from harness.report.page.model import unfold
from harness.report.publishing import FILES, MOST_BYTES, publish, without_folders
from harness.report.writing import ReportError
from harness.saved import RunInfo, SavedRun, judge_cell, load_run
from tests.judge.growing import end
from tests.report.hostile import run_of
from tests.report.lively import golden, lively

if TYPE_CHECKING:
    from collections.abc import Callable

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
SPOT = re.compile(r"(\d+|\?) / (\d+|\?) \S (.+?)(?: in (\d+) runs)?")


def disagreements(folder: Path) -> list[str]:
    """Say where the committed files of a run contradict each other."""
    page, text = (
        (folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")
    )
    told = numbers(folder)
    cells = {
        cell["id"]: [cell["outcome"], cell["lost"], cell["duplicated"]] for cell in told["cells"]
    }
    index = json.loads(element(page, "index"))
    drawn = {
        row[1]: [index["outcomes"][row[2]], row[3] or 0, row[4] or 0] for row in index["cells"]
    }
    summary = told["summary"]
    counts = Counter(cell["outcome"] for cell in told["cells"])
    kinds = ("kept", "broken", "convicted", "not convicted", "void", "stuck")
    found = [
        f"{cell}: the page says {drawn.get(cell)}, the numbers {cells.get(cell)}"
        for cell in cells | drawn
        if cells.get(cell) != drawn.get(cell)
    ]
    found += [
        f"{summary[kind.replace(' ', '_')]} {kind} in the summary, {counts[kind]} in the cells"
        for kind in kinds
        if summary[kind.replace(" ", "_")] != counts[kind]
    ]
    if not (
        f"{summary['kept']} kept" in text
        and f"planned {summary['planned']} = ran {summary['ran']}" in text
    ):
        found.append("the sentence of the Markdown is not that of the summary")
    columns = ("scenario", "lost", "duplicated", "outcome", "runs")
    wanted: Counter[tuple[Any, ...]] = Counter(
        tuple(spot[column] or 0 for column in columns) for spot in told["matrix"]
    )
    if wanted != matrix_of(text):
        found.append(
            "the matrices differ: "
            f"{sorted((wanted - matrix_of(text)) + (matrix_of(text) - wanted))[:3]}"
        )
    for file in (page, text):
        if told["run"]["id"] not in file:
            found.append(f"the run {told['run']['id']} is not named everywhere")
    return found


def numbers(folder: Path) -> dict[str, Any]:
    """Return ``report.json``."""
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def element(page: str, name: str) -> str:
    """Return the text of an element of the page."""
    found = re.search(rf'<script type="[^"]*" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found, name
    return found[1]


def matrix_of(text: str) -> Counter[tuple[Any, ...]]:
    """Return the spots of the Markdown's matrix: scenario (its failure point may follow), lost,
    duplicated, outcome, runs. What is not known counts as none.
    """
    spots: Counter[tuple[Any, ...]] = Counter()
    for line in text.splitlines():
        first, *rest = (word.strip() for word in line.strip("| ").split("|"))
        for word in rest:
            if spot := SPOT.fullmatch(word):
                lost, duplicated, outcome, runs = spot.groups()
                spots[
                    first.replace("\\", "").partition(" (")[0],
                    int(lost.replace("?", "0")),
                    int(duplicated.replace("?", "0")),
                    outcome,
                    int(runs or 1),
                ] += 1
    return spots


def saved(folder: Path, *, complete: bool = True) -> SavedRun:
    """Save a run of two seeds as a real system leaves it, in a folder whose name is in its history,
    and read it back.
    """
    directory = folder / "20261121-120000"
    results = [lively(directory / "cells" / f"s{seed}", seed=seed) for seed in (1, 2)]
    ledger = directory / "cells" / "s1" / "history" / "all.jsonl"
    line = json.loads(ledger.read_text().splitlines()[0])
    why = f"IOError: {folder}/x and {Path.home()}/.cache and {sys.prefix}/lib"
    said = line | {"event": "stopped", "kind": "done", "because": why, "t": 10**12}
    ledger.write_text(ledger.read_text() + json.dumps(said) + "\n")
    end(ledger.parent)
    info = RunInfo(
        **vars_of(run_of(*results).info)
        | {
            "id": directory.name,
            "complete": complete,
            "planned": tuple(result.plan.id for result in results),
            "not_applicable": (),
            "command": f"lostack run --reports {folder}",
        }
    )
    info.save(directory)
    return load_run(directory)


def test_a_copywithout_folders_is_sealed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan names folders otherwise in the copy: it gets another seal, in the history, too; one
    that was changed gets none.
    """
    directory = tmp_path / "20261121-120000"
    monkeypatch.setattr(
        harness.report.publishing, "folders_of", lambda _: [(str(tmp_path), "[reports]")]
    )
    for seed in (1, 2):
        lively(
            directory / "cells" / f"s{seed}", seed=seed, name=lambda text: f"{text} of {tmp_path}"
        )
    changed = directory / "cells" / "s2" / "cell.json"
    changed.write_text(changed.read_text().replace("ack-lost", "ack-gone"))
    results = [judge_cell(directory / "cells" / f"s{seed}") for seed in (1, 2)]
    info = RunInfo(
        **vars_of(run_of(*results).info) | {"planned": tuple(result.plan.id for result in results)}
    )
    info.save(directory)
    for run in (
        load_run(directory),
        load_run(without_folders(load_run(directory), tmp_path / "copy")),
    ):
        kept, void = run.results
        assert (kept.verdict.kind, kept.plan.seal is not None) == (Kind.KEPT, True), (
            kept.verdict.reason
        )
        assert (void.verdict.kind, "was changed" in void.verdict.reason) == (Kind.VOID, True)
    assert str(tmp_path) not in kept.plan.because
    assert "of [reports]" in kept.plan.because


def vars_of(info: RunInfo) -> dict[str, Any]:
    """Return the fields of a frozen thing with slots."""
    return {name: getattr(info, name) for name in info.__slots__}


def test_what_is_published_agrees(tmp_path: Path) -> None:
    files = publish(saved(tmp_path), tmp_path / "published")
    assert [file.name for file in files] == list(FILES)
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert disagreements(tmp_path / "published") == []
    assert numbers(tmp_path / "published")["summary"]["ran"] == 2


SPOILS: dict[str, Callable[[str], str]] = {
    "report.md": lambda text: text.replace("0 / 2 ", "0 / 3 "),
    "report.json": lambda text: text.replace('"kept":2', '"kept":3'),
    "report.html": lambda text: text.replace(',0,1,"', ',0,0,"'),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_file_that_was_touched_is_found_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "published"
    publish(saved(tmp_path), folder)
    before = (folder / name).read_text(encoding="utf-8")
    (folder / name).write_text(SPOILS[name](before), encoding="utf-8")
    assert (folder / name).read_text(encoding="utf-8") != before
    assert disagreements(folder)


def test_no_folder_of_this_machine_is_published(tmp_path: Path) -> None:
    publish(saved(tmp_path), tmp_path / "published")
    page = (tmp_path / "published" / "report.html").read_text(encoding="utf-8")
    folded = json.dumps(
        [unfold(element(page, f"d{chunk}")) for chunk in range(page.count('id="d'))]
    )
    texts = [
        *((tmp_path / "published" / name).read_text(encoding="utf-8") for name in FILES),
        folded,
    ]
    for place in (tmp_path, Path.home(), Path(sys.prefix)):
        assert not any(str(place) in text for text in texts), place
    assert "[reports]" in texts[0]


def test_only_a_whole_real_run_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial one, a simulated one and one that is too large are refused with a line that says
    so.
    """
    with pytest.raises(ReportError, match="is partial"):
        publish(saved(tmp_path / "cut", complete=False), tmp_path / "published")
    whole = saved(tmp_path)
    one = golden("kept-after-a-crash")
    plan = replace(one.plan, system="memory")
    with pytest.raises(ReportError, match="is simulated"):
        publish(
            replace(
                whole,
                info=replace(whole.info, versions={"memory": "simulated"}),
                results=(replace(one, judgement=replace(one.judgement, plan=plan)),),
            ),
            tmp_path / "published",
        )
    monkeypatch.setattr(harness.report.publishing, "MOST_BYTES", 1000)
    with pytest.raises(ReportError, match="bytes, of"):
        publish(whole, tmp_path / "published")
    assert not (tmp_path / "published").exists()


def test_what_is_committed_agrees() -> None:
    """The matrix in the repository is that of one whole run: of both systems, every promise kept;
    and README leads to it.
    """
    linked = "](reports/published/report.md)" in (PUBLISHED.parents[1] / "README.md").read_text(
        encoding="utf-8"
    )
    files = sorted(file.name for file in PUBLISHED.glob("*") if file.is_file())
    assert files == (sorted(FILES) if linked else [])
    if linked:
        assert disagreements(PUBLISHED) == []
        told = numbers(PUBLISHED)
        assert {cell["system"] for cell in told["cells"]} >= {"kafka", "spark"}
        assert told["summary"]["green"] is True
        assert sum((PUBLISHED / name).stat().st_size for name in FILES) < MOST_BYTES
