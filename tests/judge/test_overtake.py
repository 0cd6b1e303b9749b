"""The fault ``commit-overtakes-work``: the order of its steps, its evidence, and what the history
must show of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.abilities import HeldWork
from harness.controls import InHand, OnWire
from harness.faults import CommitOvertakesWork
from harness.judge.verdict import Kind
from harness.model.events import WorkPhase
from harness.model.rhythm import CLOCK_S, LEAST_S, Rhythm
from harness.model.scenario import Evidence, Role
from harness.proofs.overtaken import POSITION_WAITED, Overtaken
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.recording import Recording
from tests.judge.runs import TARGET, first, judged, run, without

if TYPE_CHECKING:
    from tests.judge.histories import Story

AT = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
SAVES = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.RESPONSE)
FAULT = CommitOvertakesWork(AT, InHand(AT, SAVES))
S = 1_000_000_000
STRUCK: dict[str, Any] = {
    "evidence": Evidence("rule", may_kill=(Role.PRODUCER,)),
    "proofs": {"overtaken": {"role": "producer", "within_s": 2.0}},
}
"""What is asked of a run whose producer a rule at the target has killed."""


class Answers(Recording):
    """Controls on which a commit has overtaken the work, or has not."""

    overtaken = True

    def ability(self, kind: type) -> Any:
        """Return the ability; its answer is the one that is wanted."""
        found, answer = super().ability(kind), self.overtaken
        assert kind is HeldWork

        class Held:
            """Answers."""

            def __getattr__(self, name: str) -> Any:
                """Return the call, which is written down."""
                call = getattr(found, name)
                return lambda *given: (call(*given), answer)[1]

        return Held()


@pytest.mark.parametrize(
    ("overtaken", "then"),
    [
        (True, ["kill", "applied", "HeldWork.discard", "restart"]),
        (False, ["HeldWork.release", "applied"]),
    ],
)
def test_it_kills_whom_a_commit_has_overtaken_and_nobody_else(
    *, overtaken: bool, then: list[str]
) -> None:
    """The work is held before the target goes on."""
    controls = Answers(FAULT)
    controls.overtaken = overtaken
    FAULT.arm(controls)
    FAULT.inject(controls)
    assert controls.done == [
        "arm fault",
        "armed",
        "fired",
        "HeldWork.hold",
        "resolve Fetch release",
        "HeldWork.await_overtaken",
        *then,
        "healed",
    ]


def test_without_a_dry_run_there_is_nothing_to_hold() -> None:
    """A name without what is held is for choosing, and never runs."""
    fault = CommitOvertakesWork(AT)
    with pytest.raises(ValueError, match="no dry run has shown yet what the consumer writes"):
        fault.inject(Answers(fault))


def test_its_evidence_is_a_death_that_may_be() -> None:
    """And the proof, which says when it must."""
    wanted = Evidence("rule", may_kill=(Role.CONSUMER,), proofs=(Overtaken("consumer", LEAST_S),))
    assert FAULT.evidence() == wanted


def overtaken(story: Story) -> None:
    """Let a commit overtake the producer's work, and the kill of the producer follow."""
    death = first(story, "node", phase="exited", signal=9)["t"]
    phases = (WorkPhase.WATCHED, WorkPhase.HELD, WorkPhase.COVERED)
    for number, phase in enumerate(phases, start=-3):
        story.tell("work", "runner", role="producer", phase=phase)["t"] = death + number
    story.tell("work", "runner", role="producer", phase=WorkPhase.DISCARDED)["t"] = death + 1


def waited(story: Story, seconds: float = 2.0) -> None:
    """Let the position wait for the producer's work, and nobody die."""
    fired = first(story, "fault", phase="fired")["t"]
    without(story, lambda row: row["event"] == "node" and row.get("signal") == 9)
    told = {WorkPhase.WATCHED: 1, WorkPhase.HELD: 2, WorkPhase.RELEASED: 2 + int(seconds * S)}
    for phase, later in told.items():
        story.tell("work", "runner", role="producer", phase=phase)["t"] = fired + later


def without_phase(story: Story, phase: WorkPhase) -> None:
    """Take what was said of a phase away."""
    without(story, lambda row: row["event"] == "work" and row["phase"] == phase)


def test_a_commit_that_overtook_the_work_is_judged_by_what_it_lost() -> None:
    """The stage was killed behind the commit: the run is sound."""
    story = run()
    overtaken(story)
    found = judged(story, **STRUCK)
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert POSITION_WAITED not in found.signs.of(TARGET)


def test_a_position_that_waited_shows_it() -> None:
    story = run()
    waited(story)
    first(story, "rule", phase="hit")["rule"] = "fault"
    found = judged(story, **STRUCK)
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert POSITION_WAITED in found.signs.of(TARGET)


def test_what_the_history_must_show() -> None:
    """Each thing that it lacks voids the run: a fault that was not armed, held nothing, killed too
    early, too late, or without need.
    """
    lacks: dict[str, Any] = {
        "nobody held the work of the producer": lambda s: without_phase(s, WorkPhase.WATCHED),
        "not tried: the producer was given the target": lambda s: without_phase(s, WorkPhase.HELD),
        "no commit had overtaken its work": lambda s: without_phase(s, WorkPhase.COVERED),
        "was killed before a commit overtook": lambda s: first(
            s, "work", phase=WorkPhase.COVERED
        ).update(t=first(s, "node", phase="exited", signal=9)["t"] + 1),
        "which was not killed": lambda s: without(
            s, lambda row: row["event"] == "node" and row.get("signal") == 9
        ),
    }
    for reason, spoil in lacks.items():
        story = run()
        overtaken(story)
        spoil(story)
        verdict = judged(story, **STRUCK).verdict
        assert (verdict.kind, reason in verdict.reason) == (Kind.VOID, True), verdict.reason


def test_work_must_be_held_for_as_long_as_a_commit_may_take() -> None:
    story = run()
    waited(story, 0.5)
    verdict = judged(story, **STRUCK).verdict
    assert (verdict.kind, "was released after 0.5 s" in verdict.reason) == (Kind.VOID, True)
    without_phase(story, WorkPhase.RELEASED)
    verdict = judged(story, **STRUCK).verdict
    assert (verdict.kind, "never released" in verdict.reason) == (Kind.VOID, True)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (True, "a mark at 127.0.0.1:3306 and unix:/run/redis.sock cannot be seen"),
        (False, "its work at 127.0.0.1:3306 and unix:/run/redis.sock cannot be held"),
    ],
)
def test_what_is_said_past_the_wire_may_have_been_first(*, mark: bool, said: str) -> None:
    """Nobody can say that it waited. What was seen to overtake is judged all the same."""
    of = {"mark": mark, "unseen": ["127.0.0.1:3306", "unix:/run/redis.sock"]}
    asked = {**STRUCK, "proofs": {"overtaken": STRUCK["proofs"]["overtaken"] | of}}
    story = run()
    waited(story)
    verdict = judged(story, **asked).verdict
    assert (verdict.kind, verdict.reason) == (
        Kind.VOID,
        f"not tried: the producer speaks past the wire, and {said}",
    )
    story = run()
    overtaken(story)
    assert judged(story, **asked).verdict.kind is Kind.KEPT


def test_the_wait_follows_the_rhythm() -> None:
    """Twice the interval, at least what a clock needs, at most half the session."""
    assert Rhythm(0.1).within_s == LEAST_S
    assert Rhythm(0.9).within_s == CLOCK_S
    assert Rhythm(5.0).within_s == 10.0
    assert Rhythm(5.0, session_s=6.0).within_s == 3.0
    assert [Rhythm(each).is_long for each in (None, 5.0, 30.0)] == [False, False, True]
