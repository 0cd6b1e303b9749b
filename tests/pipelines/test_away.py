"""Who was struck, and has not moved since: no loss is told before the patience is over. Without a
broker, and with a clock of its own.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.pipelines.cells import cells_of
from harness.pipelines.programs import PROCESS
from harness.systems.declared.learnt import silence
from harness.systems.declared.learnt.silence import QuietReason
from tests.pipelines.test_drain import ORDERS, PATIENCE_S, ROLES, Pipe


@pytest.fixture(autouse=True)
def patient_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell is patient for a second time."""
    monkeypatch.setattr(silence, "_again", lambda _: False)


def patient_pair(pipe: Pipe, gap: float = 0.5) -> None:
    """Another cell of its pair was patient: silences of it are known, and short."""
    pipe.silences.learn(pipe.cell, gap, rested=PATIENCE_S, patiently=True)


@pytest.mark.parametrize(
    ("cell", "late", "within_s"),
    [
        ("commit-lost", {"role": Role.PRODUCER}, None),
        ("commit-lost", {"role": Role.CONSUMER, "partition": 1}, None),
        ("commit-lost", {"role": Role.CONSUMER}, 3.0),
        ("request-lost", {"role": Role.CONSUMER}, None),
        ("request-lost", {"role": Role.PRODUCER, "partition": 1}, None),
        ("request-lost", {"role": Role.PRODUCER}, 3.0),
        ("broker-crash-before-ack", {"role": Role.PRODUCER}, None),
    ],
)
def test_no_loss_is_told_while_who_was_struck_may_be_away(
    monkeypatch: pytest.MonkeyPatch, cell: str, late: dict[str, Any], within_s: float | None
) -> None:
    """One late frame of another stage, or of another partition, shows nothing of it: a worker that
    comes back 20 s later has lost nothing. Once it has moved, what was learnt of it is enough. A
    dead broker strikes all.
    """
    pipe = Pipe(monkeypatch, cell)
    patient_pair(pipe)

    def comes_back() -> None:
        pipe.happens()
        pipe.rows.append("b")

    after, drain = pipe.drained_after(at_1=lambda: pipe.happens(**late), at_20=comes_back)
    if within_s is None:
        assert (drain.missing, after > 20) == (0, True)
    else:
        assert after == pytest.approx(within_s, abs=0.3)
        assert (drain.missing, drain.rest.why) == (1, QuietReason.LEARNT)


def test_a_late_result_is_no_sign_of_who_was_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be another partition's."""
    pipe = Pipe(monkeypatch, "commit-lost")
    pipe.rows.clear()
    patient_pair(pipe)
    after, drain = pipe.drained_after(
        at_1=lambda: pipe.rows.append("a"), at_20=lambda: pipe.rows.append("b")
    )
    assert (drain.missing, after > 20) == (0, True)


def test_who_has_moved_before_the_conditions_hold_is_not_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells are over as soon as before; what came while something was known to be on its way was no
    silence.
    """
    pipe = Pipe(monkeypatch, "commit-lost")
    patient_pair(pipe)
    pipe.trouble = "partition 0 is behind"
    after, drain = pipe.drained_after(
        at_5=pipe.happens, at_6=lambda: setattr(pipe, "trouble", None)
    )
    assert after == pytest.approx(6 + 1, abs=0.3)
    assert (drain.missing, drain.gap) == (1, 0.0)


def test_nothing_is_told_of_processes_that_share_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have moved but the one that was struck; of a single one it is known. One that has
    ended comes back no more.
    """
    several = dataclasses.replace(
        ORDERS,
        stages=tuple(
            dataclasses.replace(stage, crash=PROCESS) if stage.known is Role.CONSUMER else stage
            for stage in ORDERS.stages
        ),
    )
    for pipeline, ended, after_s in (
        (ORDERS, False, 3.0),
        (several, False, 1 + PATIENCE_S),
        (several, True, 3.0),
    ):
        pipe = Pipe(monkeypatch, "commit-lost")
        [pipe.cell] = cells_of(pipeline, [pipe.cell.scenario])
        if ended:
            pipe.stages[Role.CONSUMER] = SimpleNamespace(ended=partial(int, 0))
        patient_pair(pipe)
        pipe.moves(Role.CONSUMER, record=pipe.load.target.id, partition=None)
        after, _ = pipe.drained_after(at_1=partial(pipe.happens, Role.CONSUMER, partition=None))
        assert after == pytest.approx(after_s, abs=0.4)


def test_a_send_without_an_answer_is_waited_for_where_its_repetition_is_forbidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its sender may send it again as late as a lost record may come."""
    for claims, after_s in ((Semantic.EXACTLY_ONCE, PATIENCE_S), (Semantic.AT_LEAST_ONCE, 1.0)):
        pipe = Pipe(monkeypatch, "ack-lost")
        pipeline = dataclasses.replace(ORDERS, claims=claims)
        [pipe.cell] = cells_of(pipeline, [pipe.cell.scenario])
        pipe.rows.append("b")
        pipe.open = 1
        patient_pair(pipe)
        assert pipe.drained_after()[0] == pytest.approx(after_s, abs=0.3)


def test_what_did_not_reach_a_stage_is_no_sign_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the answer to a process that is dead already."""
    for reached, after_s in ((False, 1 + PATIENCE_S), (True, 3.0)):
        pipe = Pipe(monkeypatch, "commit-lost")
        patient_pair(pipe)
        after, _ = pipe.drained_after(at_1=partial(pipe.happens, reached=reached))
        assert after == pytest.approx(after_s, abs=0.4)


@pytest.mark.parametrize("where", ["orders", "priced"])
def test_who_fetched_in_one_partition_and_sent_to_another(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Where it fetched the target counts: its sends may be those of another of its processes."""
    pipe = Pipe(monkeypatch, "commit-lost")
    target, since = pipe.load.target.id, int(pipe.clock.now * 1e9)
    sent: dict[str, Any] = {
        "topic": "priced",
        "partition": 1,
        "request": f"{ROLES.index(Role.CONSUMER)}:7",
    }
    pipe.lines.append(kinds.Sent(t=1, record=target, **sent))
    pipe.clock.now += 1
    if where == "orders":
        pipe.moves(Role.CONSUMER)
    else:
        pipe.lines.append(kinds.Sent(t=since + 1, record="b", **sent))
    there = pipe.stages_seen.moved("consumer", [target], since, several=False)
    assert there is (where == "orders")


def test_where_readers_share_a_partition_it_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a share group: the others go on in it while one is away."""
    for acknowledges in (False, True):
        pipe = Pipe(monkeypatch, "commit-lost")
        if acknowledges:
            pipe.lines.append(kinds.Acknowledged(t=1, record="a", request="1:5", reached=True))
        since = int(pipe.clock.now * 1e9)
        pipe.clock.now += 1
        pipe.moves(Role.CONSUMER)
        there = pipe.stages_seen.moved("consumer", [pipe.load.target.id], since, several=True)
        assert there is not acknowledges
