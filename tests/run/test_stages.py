"""Stages that have ended by themselves: a supervised one is started again, another one ends the
drain.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError
from harness.run.drain import Check, Checks, QuietSink, StageEndedError
from harness.run.nodes import LIVES
from harness.run.stages import Producing, Reading
from harness.runtimes.interface import Exit
from tests.judge.scenes import Kept, living, scene_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.run.nodes import StageNode


def ended(
    folder: Path, role: Role, history: Kept, end: Exit, *, supervised: bool, lasts: bool = True
) -> StageNode:
    """Return a stage that has ended. ``lasts``: whether its next incarnation lives on; else it ends
    in the same way.
    """
    scene = scene_of(folder, history=history)
    node = living(scene, role, str(role))
    node.supervised = supervised
    node.node = SimpleNamespace(pid=7, exit=end)

    def start(_spec: object) -> Any:
        return SimpleNamespace(pid=8, exit=None if lasts else end)

    node.runtime = SimpleNamespace(check=lambda: None, start=start, python="python")
    return node


FAILED = Exit(7, 1, None, 0)
DONE = Exit(7, 0, None, 0)
KILLED = Exit(7, None, 9, 0)
CRASHED = Exit(7, None, 6, 0)
TROUBLES: list[tuple[Role, Callable[[Kept, StageNode], str | None]]] = [
    (Role.PRODUCER, lambda history, node: Producing(history, node).trouble()),  # type: ignore[arg-type]
    (Role.CONSUMER, lambda _, node: Reading(lambda _role, _name: node, Role.CONSUMER).trouble()),
]


@pytest.mark.parametrize(("end", "how"), [(FAILED, "status 1"), (CRASHED, "signal 6")])
@pytest.mark.parametrize(("role", "trouble"), TROUBLES)
def test_a_supervised_program_is_started_again(
    role: Role,
    trouble: Callable[[Kept, StageNode], str | None],
    end: Exit,
    how: str,
    tmp_path: Path,
) -> None:
    """The drain goes on, and the history says who started it. A fault's own restart is no
    supervisor's.
    """
    history = Kept()
    node = ended(tmp_path, role, history, end, supervised=True)
    assert trouble(history, node) == f"the {role} ended with {how} and was started again"
    assert node.stage.incarnation == 2
    assert history.of(kinds.NODE, "phase", "incarnation") == [("exited", 1), ("started", 2)]
    node.begin_again()
    assert history.of(kinds.NODE, "phase", "supervised")[1:] == [
        ("started", True),
        ("started", None),
    ]


@pytest.mark.parametrize(("role", "trouble"), TROUBLES)
@pytest.mark.parametrize(("end", "supervised"), [(FAILED, False), (KILLED, True), (KILLED, False)])
def test_nobody_else_is(
    role: Role,
    trouble: Callable[[Kept, StageNode], str | None],
    end: Exit,
    supervised: bool,
    tmp_path: Path,
) -> None:
    """What a fault has killed is started again by the fault, and what nobody
    supervises by nobody.
    """
    history = Kept()
    node = ended(tmp_path, role, history, end, supervised=supervised)
    with pytest.raises(StageEndedError, match=f"the {role} ended with "):
        trouble(history, node)
    assert node.stage.incarnation == 1


def test_a_program_that_ends_again_and_again_is_given_up(tmp_path: Path) -> None:
    history = Kept()
    node = ended(tmp_path, Role.CONSUMER, history, FAILED, supervised=True, lasts=False)
    reading = Reading(lambda _role, _name: node, Role.CONSUMER)
    for life in range(2, LIVES + 1):
        assert reading.trouble() is not None
        assert node.stage.incarnation == life
    with pytest.raises(
        StageEndedError, match=f"the consumer ended with status 1, started {LIVES} times"
    ):
        reading.trouble()
    drained = QuietSink(Checks([Check("consumer", reading.trouble)]), lambda: 0).wait()
    assert (drained.stage, drained.more) == ("consumer", {"at_once": True})


def test_a_program_that_nobody_supervises_leaves_it_open_why_nothing_moves(tmp_path: Path) -> None:
    node = ended(tmp_path, Role.CONSUMER, Kept(), FAILED, supervised=False)
    reading = Reading(lambda _role, _name: node, Role.CONSUMER)
    drained = QuietSink(Checks([Check("consumer", reading.trouble)]), lambda: 0).wait()
    assert (drained.because, drained.more) == ("the consumer ended with status 1", {})


def test_a_source_is_not_exhausted_while_its_producer_comes_back(tmp_path: Path) -> None:
    """It has ended for good only if it is done, or nobody starts it again."""
    history: Any = Kept()
    for end, supervised, expected in (
        (DONE, True, True),
        (DONE, False, True),
        (FAILED, False, True),
        (FAILED, True, False),
    ):
        node = ended(tmp_path, Role.PRODUCER, history, end, supervised=supervised)
        assert Producing(history, node).has_ended() is expected


@pytest.mark.parametrize("refused", [True, False])
def test_who_is_never_ready_says_what_it_was_told(refused: bool, tmp_path: Path) -> None:
    """The last error in an answer to its connections, as the wire has seen it; no other's."""
    node = ended(tmp_path, Role.CONSUMER, Kept(), DONE, supervised=False)
    node.node, node.ready_within_s = SimpleNamespace(pid=7, exit=None), 0.0
    answers = [
        kinds.Frame(t=1, by="wire", role="consumer", api="CONNECTED"),
        kinds.Frame(t=2, by="wire", role="consumer", api="ERROR", error="no such queue")
        if refused
        else kinds.Frame(t=2, by="wire", role="producer", api="ERROR", error="no such queue"),
    ]
    node.so_far = SimpleNamespace(of=lambda kind: answers if kind is kinds.Frame else [])  # type: ignore[assignment]
    with pytest.raises(WaitTimeoutError) as told:
        node.await_ready()
    assert ("was told an error last: ERROR: no such queue" in str(told.value)) is refused
    assert "for consumer to be ready" in str(told.value)
