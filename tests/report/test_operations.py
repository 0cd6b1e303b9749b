"""A history as operations: each line has the form that Jepsen's workload for logs reads, and
planted anomalies are there to be found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.model.failures import UsageError
from harness.report.operations import operation_lines, operations_of
from harness.report.record import NoRecordError
from tests.judge.histories import TOPIC
from tests.judge.make_golden import split_brain
from tests.judge.runs import RECORDS, TARGET, first, history_of, run
from tests.judge.test_crosschecks import ends, in_a_transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.judge.histories import Story

SEND, SENT = r"\[:send \d+ \d+\]", r"\[:send \d+ \[(?:\d+|nil) \d+\]\]"
PAIRS = r"\d+ \[(?:\[\d+ \d+\] ?)+\]"
POLL, POLLED = r"\[:poll\]", rf"\[:poll \{{{PAIRS}(?:, {PAIRS})*\}}\]"
SCHEMA: Final = re.compile(
    r"\{:process \d+, (?:"
    rf":type (?::invoke|:fail|:info), :f (?::send|:txn), :value \[{SEND}(?: {SEND})*\]"
    rf"|:type :ok, :f (?::send|:txn), :value \[{SENT}(?: {SENT})*\]"
    rf"|:type :invoke, :f :poll, :value \[{POLL}\]"
    rf"|:type :ok, :f :poll, :value \[{POLLED}\]"
    r"), :index \d+, :time -?\d+\}"
)
"""What a line may be: an invocation names what is asked for, and a completion what was told."""


def lines_of(story: Story) -> list[dict[str, Any]]:
    """Return the operations of a story, each taken apart, when they have been held to the form."""
    lines = list(operations_of(history_of(story)))
    found = [_apart(line) for line in lines if not line.startswith(";")]
    assert [line["index"] for line in found] == list(range(len(found)))
    assert [line["time"] for line in found] == sorted(line["time"] for line in found)
    _hold_processes(found)
    return found


def _apart(line: str) -> dict[str, Any]:
    assert SCHEMA.fullmatch(line), line
    told = re.fullmatch(
        r"\{:process (\d+), :type :(\w+), :f :(\w+), :value (.*), :index (\d+), :time (.*)\}", line
    )
    assert told is not None
    process, kind, what, value, index, time = told.groups()
    return {
        "process": int(process),
        "type": kind,
        "f": what,
        "value": value,
        "index": int(index),
        "time": int(time),
    }


def _hold_processes(lines: Iterable[dict[str, Any]]) -> None:
    """A process does one thing after another, and nothing after an operation of unknown end."""
    state: dict[int, str] = {}
    for line in lines:
        before = state.get(line["process"], "ok")
        assert before != "info", line
        assert (before == "invoke") == (line["type"] != "invoke"), line
        state[line["process"]] = line["type"]
    assert "invoke" not in state.values()


def completed(story: Story, what: str) -> list[tuple[str, str]]:
    """Return the type and value of each completion of a kind."""
    return [
        (line["type"], line["value"])
        for line in lines_of(story)
        if line["f"] == what and line["type"] != "invoke"
    ]


def polled(story: Story) -> dict[tuple[str, str], set[str]]:
    """Return the values that were polled, by key and offset."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, value in completed(story, "poll"):
        for key, pairs in re.findall(r"(\d+) \[((?:\[\d+ \d+\] ?)+)\]", value):
            for offset, record in re.findall(r"\[(\d+) (\d+)\]", pairs):
                found[key, offset].add(record)
    return found


def answered(story: Story, request: str, **more: object) -> None:
    """The broker answers a request of the run by hand."""
    sent = first(story, "sent", request=request)
    row = story.tell("produce_answer", "wire", record=sent["record"], request=request)
    row.update({"error": 0, "base_offset": 0, "offset": 0, "reached": True, **more})
    row["t"] = sent["t"] + 1


def test_what_was_answered_is_ok_and_the_rest_unknown() -> None:
    story = run()
    answered(story, "1/1")
    told = completed(story, "send")
    assert told[0] == ("ok", "[[:send 0 [0 1]]]")
    kinds = [kind for kind, _ in told]
    assert (kinds.count("ok"), kinds.count("fail"), kinds.count("info")) == (1, 1, 5)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error": 10, "offset": -1}, "fail"),
        ({"error": 20, "offset": -1}, "info"),
        ({"reached": False}, "info"),
    ],
    ids=["refused", "refused, perhaps stored", "never told"],
)
def test_only_what_certainly_did_not_happen_fails(answer: dict[str, Any], kind: str) -> None:
    """MESSAGE_TOO_LARGE is a refusal; NOT_ENOUGH_REPLICAS_AFTER_APPEND is none."""
    story = run()
    answered(story, "1/1", **answer)
    assert completed(story, "send")[0] == (kind, "[[:send 0 1]]")


def test_a_request_that_is_sent_again_is_one_operation() -> None:
    story = run()
    again = first(story, "sent", request="1/1")
    story.tell(**{**again, "request": "1/9"})["t"] = again["t"] + 1
    answered(story, "1/9")
    told = completed(story, "send")
    assert ("ok", "[[:send 0 [0 1]]]") in told
    assert len(told) == len(RECORDS) + 1


@pytest.mark.parametrize(
    ("error", "commit", "kind"), [(0, True, "ok"), (0, False, "fail"), (51, True, "info")]
)
def test_a_transaction_is_one_operation(error: int, commit: bool, kind: str) -> None:
    """It is committed or aborted, if the broker has said so."""
    story = run()
    in_a_transaction(story)
    end = first(story, "end_txn")
    end["commit"] = commit
    row = story.tell("end_txn_answer", "wire", error=error, request="7:3", reached=True)
    row.update(t=end["t"] + 1, transactional_id="tx")
    [(told, value)] = completed(story, "txn")
    assert told == kind
    assert re.fullmatch(r"\[\[:send \d \[nil 6\]\]\]|\[\[:send \d 6\]\]", value), value


def test_a_transaction_whose_end_was_withheld_is_unknown() -> None:
    story = run()
    in_a_transaction(story)
    first(story, "end_txn")["reached"] = False
    ends(story, "7:4", reached=False)
    assert [kind for kind, _ in completed(story, "txn")] == ["info"]


def test_a_split_brain_is_there_to_be_found() -> None:
    """Two polls have different values at one offset of a key; in the right run none have."""
    assert all(len(values) == 1 for values in polled(run()).values())
    story = run()
    split_brain(story)
    assert sorted(map(len, polled(story).values()))[-2:] == [1, 2]


def test_numbers_are_named() -> None:
    """By comments, before the first operation."""
    lines = list(operations_of(history_of(run())))
    names = [line for line in lines if line.startswith(";")]
    assert lines[: len(names)] == names
    assert f"; key 0 is {TOPIC}/0" in names
    assert f"; value 3 is {TARGET}" in names


def test_operations_are_of_one_cell() -> None:
    with pytest.raises(UsageError, match="name one with --only"):
        list(operation_lines([None, None]))  # type: ignore[list-item]  # only counted
    with pytest.raises(NoRecordError, match="no operation"):
        list(operation_lines([]))
