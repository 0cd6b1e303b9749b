"""``lostack events``: what a history holds of a record, and what the wire saw, in the protocol's
own names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import kafka.errors
import pytest

from harness.cli import main
from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.history import HISTORY, event_of, read_history
from harness.model.states import Hop
from harness.protocols.kafka import steps
from harness.report.eventlog import event_lines, event_text
from harness.report.record import NoRecordError
from tests.report.hostile import run_of
from tests.report.lively import golden, lively
from tests.report.own import LIBRARY, own_run

if TYPE_CHECKING:
    from pathlib import Path

    from harness.saved import CellResult


@pytest.fixture
def cell(tmp_path: Path) -> CellResult:
    """An ack-lost cell, as the wire wrote it down."""
    return lively(tmp_path / "cells" / "x")


def test_every_frame_of_a_record_is_listed_and_no_other(cell: CellResult) -> None:
    """Those that carried it, and their answers, on the connections of both sides; with what a rule
    did to them.
    """
    target = cell.plan.target
    heading, *lines, _ = event_lines([cell], record=target, frames=True)
    assert heading == f"{cell.plan.id}  ✔ kept"
    history = read_history(cell.directory / HISTORY)
    asked = {e.request for e in history.of(kinds.Sent, kinds.ProduceAnswer) if e.record == target}
    want = [e for e in history.of(kinds.Frame) if f"{e.conn}:{e.corr}" in asked]
    assert len(want) == 4
    frames = [line for line in lines if "correlation" in line and "rule" not in line]
    assert [line.split("correlation ")[1].split(",")[0] for line in frames] == [
        str(e.corr) for e in want
    ]
    assert [
        line.split("rule fault ")[1].split(":")[0] for line in lines if "rule fault " in line
    ] == ["hit", "dropped", "cut"]
    assert not any("Fetch" in line for line in lines)


def test_without_frames_the_authorities_are_listed_too(cell: CellResult) -> None:
    target = cell.plan.target
    lines = list(event_lines([cell], record=target))
    for word in ("offered", "sent", "produce_answer", "fetched", "delivered", "stored", "recorded"):
        assert any(f"  {word}  " in line for line in lines), word
    times = [float(line.split(" ms")[0]) for line in lines[1:-1]]
    assert times == sorted(times)


def test_a_line_that_only_counts_records_is_about_none() -> None:
    cell = golden("convicted-of-going-on")
    history = read_history(cell.directory / HISTORY)
    assert any(isinstance(fault.records, int) for fault in history.of(kinds.Fault))
    lines = list(event_lines([cell], record=cell.plan.target))
    assert any("  offered  " in line for line in lines)
    assert not any("phase forgot" in line for line in lines)


@pytest.mark.parametrize("named", [{"record": "r"}, {"records": ["q", "r"]}])
def test_a_line_of_an_unknown_kind_is_listed_with_its_record(
    cell: CellResult, named: dict[str, Any]
) -> None:
    """What lostack does not know may be what the reader looks for."""
    line = {"t": 1, "w": 0, "cell": cell.plan.id, "by": "wire", "event": "unheard", **named}
    (cell.directory / HISTORY / "wire.jsonl").write_text(json.dumps(line) + "\n")
    lines = list(event_lines([cell], record="r"))
    assert [line.split("wire  ")[1].split()[0] for line in lines[1:-1]] == ["unheard"]


def test_the_lines_are_those_of_the_history_as_json(cell: CellResult) -> None:
    """For programs: every line is an event, and none is changed."""
    lines = [json.loads(line) for line in event_lines([cell], frames=True, as_json=True)]
    history = read_history(cell.directory / HISTORY)
    assert [event_of(line) for line in lines] == list(history.of(kinds.Frame, kinds.Rule))


def test_what_is_not_there_is_said(cell: CellResult) -> None:
    """A record that nobody offered is a mistake, with a name that there is; one without frames has
    none in its history.
    """
    with pytest.raises(NoRecordError, match=f"an example of a record is {cell.plan.target}"):
        list(event_lines([cell], record="nobody", frames=True))
    file = cell.directory / HISTORY / "all.jsonl"
    rest = [
        line
        for line in file.read_text().splitlines()
        if json.loads(line)["event"] not in ("frame", "rule")
    ]
    file.write_text("\n".join(rest) + "\n")
    with pytest.raises(NoRecordError, match="hold no frames with"):
        list(event_lines([cell], record=cell.plan.target, frames=True))


def test_the_command_lists_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the cells that are meant; a library's name stands with the frame that says it; nothing
    meant is wrong use.
    """
    run = own_run(tmp_path / "run")
    assert main(["events", str(run.directory), "--frames", "--only", "ack-lost"]) == 0
    out = capsys.readouterr().out
    assert "orders/ack-lost/at-least-once" in out
    assert "commit-lost" not in out
    assert (
        "producer → broker-1  ApiVersions v4 request  connection 1, correlation 0, 51 bytes "
        f"({LIBRARY})"
    ) in out
    assert main(["events", str(run.directory), "--only", "nothing-like-it"]) == 2
    assert "no cell of 20261121-120000 matches 'nothing-like-it'" in capsys.readouterr().err
    assert main(["events", str(run.directory), "--record", "nobody"]) == 2
    assert "none of 3 cells has a record 'nobody'" in capsys.readouterr().err


def test_errors_have_the_names_that_kafka_gives_them() -> None:
    """Each code that is known here is known by the same name to a client of somebody else's."""
    older = {6, 10, 17}  # it has names for them that Kafka has changed since
    errors: list[Any] = [each for each in vars(kafka.errors).values() if isinstance(each, type)]
    theirs = {
        error.errno: error.message
        for error in errors
        if issubclass(error, kafka.errors.BrokerResponseError)
    }
    both = {
        code
        for code in range(200)
        if steps.error_name(code) != f"error {code}" and code in theirs and code not in older
    }
    assert len(both) > 30
    assert {code: steps.error_name(code) for code in both} == {code: theirs[code] for code in both}


def test_a_line_begins_with_its_record_and_shows_lists() -> None:
    """As JSON writes lists, also one within another; what is empty is not shown."""
    stored = kinds.Stored(
        t=0, by="runner", hop=Hop.SINK, partition=1, record="r", intact=True, visible=False
    )
    assert event_text(stored) == (
        "runner  stored  record r, partition 1, hop sink, intact True, visible False"
    )
    ready = kinds.Ready(t=0, by="consumer-1", role="consumer", partitions=(1,))
    assert event_text(ready) == "consumer-1  ready  role consumer, partitions [1]"
    unheard = kinds.OfUnknownKind(
        t=0, by="x", kind="unheard", fields={"at": 1, "none": [], "record": "r"}
    )
    assert event_text(unheard) == "x  unheard  record r, at 1"
    killed = kinds.Node(
        t=0,
        by="runner",
        node="n",
        role="stage",
        incarnation=1,
        phase=NodePhase.EXITED,
        members=((7, "below", "sleep 9"),),
    )
    assert event_text(killed).endswith("phase exited, members [[7, 'below', 'sleep 9']]")


def test_a_run_without_any_history_has_no_events() -> None:
    with pytest.raises(NoRecordError, match="the histories of 0 cells hold no events"):
        list(event_lines(run_of().results))
