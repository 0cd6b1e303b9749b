"""A fault that strikes several records in turn: the order of its steps, and that each strike is
judged by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import OnWire
from harness.faults import InTurn, Kill
from harness.judge.load import load_of
from harness.judge.verdict import Judgement, Kind, judge
from harness.judge.windows import windows_of
from harness.knowledge import knowledge
from harness.model import events as kinds
from harness.model.plan import Plan
from harness.model.prediction import Permitted
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from harness.model.states import Hop
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.judge.histories import Story
from tests.judge.recording import kill_on_wire, played, steps
from tests.judge.runs import exit_of, history_of, plan, start

if TYPE_CHECKING:
    from collections.abc import Callable

SAVES = OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.RESPONSE)
DIES = kill_on_wire(SAVES, Role.CONSUMER)
STRUCK = ["fired", "kill", "applied", "resolve OffsetCommit discard", "restart", "healed"]
ARMED = ["aimed", "arm fault", "armed"]


def test_it_is_armed_for_the_next_record_when_the_one_before_is_at_rest() -> None:
    """And before that is offered: it cannot pass."""
    fault = InTurn(DIES, 2)
    assert played(fault).done == [
        "NextTarget.aim",
        *ARMED,
        *STRUCK,
        "NextTarget.await_rest",
        "NextTarget.aim",
        *ARMED,
        "NextTarget.go_on",
        *STRUCK,
    ]
    assert steps(fault) == [], "where it does not fire, nothing follows"
    assert fault.evidence() == DIES.evidence()


def test_what_cannot_be_struck_in_turn_is_refused() -> None:
    with pytest.raises(ValueError, match="two or more"):
        InTurn(DIES, 1)
    beside: Any = Kill(
        OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE, offset=1), (SAVES.role,)
    )
    with pytest.raises(ValueError, match="the target itself"):
        InTurn(beside)


COUNT = 21
RECORDS = tuple(f"k{at % 2}-{at}" for at in range(1, COUNT + 1))
TARGETS = ("k1-5", "k1-11", "k1-17")
"""Of seven parts of three records, the second, fourth and sixth have one."""
PLAN = plan(
    offered=COUNT,
    target=TARGETS[0],
    targets=TARGETS,
    select={},
    evidence=Evidence("rule", killed=(Role.CONSUMER,)),
    lost=Permitted(),
    duplicated=Permitted(),
    sign=None,
    logs={Hop.TOPIC.value: 1},
)
LOST = "k0-12"
"""A record of the second window, behind its target."""


def run(*lost: str, hangs_after: int = len(TARGETS)) -> Story:
    """Tell a run: the consumer is killed at each target's saved position, one after the other, and
    comes back. ``lost``: records that it never books. ``hangs_after``: it comes back from this
    strike (from 1), reads one more record and hangs; nobody aims at what follows.
    """
    hangs = hangs_after < len(TARGETS)
    read = 6 * hangs_after if hangs else COUNT
    story = Story()
    story.tell("cell", "runner", phase="begun")
    start(story, "producer", 1)
    start(story, "consumer", 1)
    aim(story, 0)
    story.tell("cell", "runner", phase="loaded")
    for at, record in enumerate(RECORDS):
        attempt = f"producer-1.{at}.1"
        story.taken(record)
        story.sent(record, attempt, f"1/{at}")
        story.acked(record, attempt)
        if at < read:
            story.fetched(record, 0, at, reached=True)
        if at < read and record not in lost:
            story.delivered(record, 0, at)
        if record in TARGETS[:hangs_after]:
            strike(story, TARGETS.index(record), last=hangs_after)
    story.tell("cell", "runner", phase="faulted")
    story.tell("drain", "runner", phase="begun", stage=None, because=None)
    if hangs:
        because = f"partition 0: position {read}, last record at {COUNT - 1}"
        story.tell("drain", "runner", phase="failed", stage="position", because=because)
    else:
        story.tell("drain", "runner", phase="completed", stage=None, because=None)
    story.tell("cell", "runner", phase="drained")
    for at, record in enumerate(RECORDS):
        story.offered(record, record.split("-")[0], at + 1)
        story.stored(record, 0, at, attempt=f"producer-1.{at}.1")
        if at < read and record not in lost:
            story.recorded(record, at + 1, 0, at)
    story.cursor(COUNT + 1)
    story.log(0, COUNT)
    story.position(0, read)
    story.tell("cell", "runner", phase="observed")
    exit_of(story, "consumer", hangs_after + 1, signal=9)
    story.tell("cell", "runner", phase="ended")
    return story


def aim(story: Story, number: int) -> None:
    """The fault is armed for a record."""
    story.tell("fault", "runner", phase="aimed", record=TARGETS[number], number=number)
    story.tell("rule", "wire", rule="fault", phase="armed", record=TARGETS[number], limit=1)
    story.tell("fault", "runner", phase="armed")


def strike(story: Story, number: int, last: int) -> None:
    """It strikes, and is armed for the next one."""
    record = TARGETS[number]
    story.tell("rule", "wire", rule="fault", phase="hit", record=record, records=[record])
    story.tell("fault", "runner", phase="fired", record=record)
    exit_of(story, "consumer", number + 1, signal=9)
    story.tell("fault", "runner", phase="applied")
    start(story, "consumer", number + 2)
    story.tell("fault", "runner", phase="healed")
    if number + 1 == last < len(TARGETS):
        return
    story.tell("rule", "wire", rule="fault", phase="disarmed")
    if number + 1 < len(TARGETS):
        aim(story, number + 1)


def judged(story: Story) -> Judgement:
    """Judge a run."""
    return judge(PLAN, history_of(story), knowledge())


def strikes(story: Story, number: int) -> list[int]:
    """Return where the lines of a strike are: from its aim to the next one's."""
    aims = [at for at, row in enumerate(story.events) if row.get("phase") == "aimed"]
    return [*range(aims[number], [*aims[1:], len(story.events)][number])]


def never_hit(story: Story, number: int) -> None:
    """Let a strike's rule be disarmed before it was hit."""
    gone = {"hit", "fired", "applied", "healed", "exited"}
    taken = {at for at in strikes(story, number) if story.events[at].get("phase") in gone}
    story.events[:] = [row for at, row in enumerate(story.events) if at not in taken]


def of(story: Story, number: int, phase: str, event: str = "") -> dict[str, Any]:
    """Return a line of a strike."""
    rows = (story.events[at] for at in strikes(story, number))
    return next(row for row in rows if row.get("phase") == phase and event in ("", row["event"]))


def test_a_right_program_is_kept_at_every_target() -> None:
    verdict = judged(run()).verdict
    assert verdict.kind is Kind.KEPT, verdict.reason
    assert f"no effect was seen on {', '.join(TARGETS)}" in verdict.reason
    assert not verdict.effect
    assert verdict.fired == 1, "it is one run"


def test_a_loss_is_named_with_the_target_at_which_it_came() -> None:
    found = judged(run(LOST))
    assert found.verdict.kind is Kind.BROKEN
    assert found.verdict.by_fault
    assert found.account.lost == {LOST}
    assert f"{LOST}: offered in the wave of k1-11 (target 2 of 3)" in found.verdict.reason
    both = judged(run(LOST, "k1-21")).verdict.reason
    assert "k1-21: offered in the wave of k1-17 (target 3 of 3)" in both


@pytest.mark.parametrize("number", range(3))
def test_a_strike_that_was_disarmed_makes_the_run_void(number: int) -> None:
    """The others stand, and are told; verdicts are merged by the worst."""
    story = run()
    never_hit(story, number)
    verdict = judged(story).verdict
    assert (verdict.kind, verdict.fired) == (Kind.VOID, 1)
    assert verdict.reason.startswith(
        f"at {TARGETS[number]} (target {number + 1} of 3): the fault did not fire; it struck as "
        "declared at 2 of 3"
    )


def wrong_record(story: Story) -> None:
    """It is hit once more at the record before."""
    of(story, 2, "hit")["records"] = [TARGETS[1]]


def wrong_victim(story: Story) -> None:
    """The producer dies in the consumer's place."""
    of(story, 2, "exited").update(node="producer", role="producer")


def nobody_dies(story: Story) -> None:
    """As it did at the targets before."""
    story.events.remove(of(story, 2, "exited"))


def never_healed(story: Story) -> None:
    """As it was at the targets before."""
    story.events.remove(of(story, 2, "healed"))


def hit_twice(story: Story) -> None:
    """By a rule that was armed for one."""
    story.events.append(of(story, 2, "hit") | {"t": of(story, 2, "hit")["t"] + 1})


def never_aimed(story: Story) -> None:
    """The strikes end with the second."""
    never_hit(story, 2)
    story.events.remove(of(story, 2, "aimed"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (wrong_record, "the fault fired at another record than its target k1-17"),
        (wrong_victim, "the consumer was not killed"),
        (nobody_dies, "the consumer was not killed"),
        (never_healed, "the fault was never healed"),
        (hit_twice, "may be hit at most 1 times"),
        (never_aimed, "the fault did not fire (this record was never aimed at"),
    ],
)
def test_what_the_other_strikes_did_proves_nothing_for_one(
    change: Callable[[Story], None], why: str
) -> None:
    story = run()
    change(story)
    verdict = judged(story).verdict
    assert verdict.kind is Kind.VOID
    assert verdict.reason.startswith("at k1-17 (target 3 of 3): ")
    assert why in verdict.reason


@pytest.mark.parametrize(("number", "by_fault"), [(1, False), (2, True)])
def test_a_loss_at_a_void_target_is_not_by_the_fault(number: int, *, by_fault: bool) -> None:
    """But one at a target that was struck as declared is, whatever became of the others."""
    story = run(LOST)
    never_hit(story, number)
    verdict = judged(story).verdict
    assert (verdict.kind, verdict.by_fault) == (Kind.BROKEN, by_fault)
    assert ("though not by this fault" in verdict.reason) is not by_fault
    assert f"(target {number + 1} of 3): the fault did not fire" in verdict.reason


@pytest.mark.parametrize(
    ("semantic", "lost", "doubled"),
    [(Semantic.AT_LEAST_ONCE, LOST, "k1-5"), (Semantic.AT_MOST_ONCE, "k1-5", LOST)],
)
def test_what_the_promise_permits_at_a_proved_target_proves_nothing_for_what_it_forbids(
    semantic: Semantic, lost: str, doubled: str
) -> None:
    """And it is not named as if it were harm."""
    story = run(lost)
    record_twice(story, doubled)
    never_hit(story, 1)
    found = judge(replace(PLAN, semantic=semantic), history_of(story), knowledge())
    assert found.account.lost | found.account.duplicated == {lost, doubled}
    verdict = found.verdict
    assert (verdict.kind, verdict.by_fault) == (Kind.BROKEN, False), verdict.reason
    assert f"{LOST}: offered in the wave of k1-11 (target 2 of 3)" in verdict.reason
    assert "k1-5: offered" not in verdict.reason


def test_of_a_loss_and_a_duplicate_that_are_both_forbidden_one_at_a_proved_strike_decides() -> None:
    story = run("k1-5")
    record_twice(story, LOST)
    never_hit(story, 1)
    promised = replace(PLAN, semantic=Semantic.EXACTLY_ONCE)
    verdict = judge(promised, history_of(story), knowledge()).verdict
    assert (verdict.kind, verdict.by_fault) == (Kind.BROKEN, True), verdict.reason
    assert "k1-5: offered in the wave of k1-5 (target 1 of 3)" in verdict.reason


def record_twice(story: Story, record: str) -> None:
    """Let the output have a record a second time."""
    rows = [row for row in story.events if row["event"] == "recorded"]
    once = next(row for row in rows if row["record"] == record)
    again = once | {"order": max(row["order"] for row in rows) + 1}
    story.events.insert(story.events.index(once) + 1, again)


@pytest.mark.parametrize("number", [1, 2])
def test_a_program_that_hangs_after_a_proved_strike_is_stuck(number: int) -> None:
    """What was never aimed at behind it does not hide that."""
    verdict = judged(run(hangs_after=number)).verdict
    assert verdict.kind is Kind.STUCK, verdict.reason
    assert verdict.reason.startswith("no progress until the deadline: position: ")
    assert verdict.reason.endswith(
        f"; since the strike at {TARGETS[number - 1]} (target {number} of 3), behind which none "
        "followed"
    )


def test_a_hang_is_void_where_a_strike_that_was_aimed_proves_nothing() -> None:
    story = run(hangs_after=2)
    never_hit(story, 0)
    assert judged(story).verdict.kind is Kind.VOID
    story = run(hangs_after=1)
    never_hit(story, 0)
    verdict = judged(story).verdict
    assert verdict.kind is Kind.VOID, "no strike before is proved"
    assert verdict.reason.startswith("at k1-5 (target 1 of 3): the fault did not fire; at k1-11 ")


def test_of_two_losses_the_one_at_a_proved_strike_decides() -> None:
    story = run(LOST, "k1-21")
    never_hit(story, 2)
    assert judged(story).verdict.by_fault


def test_the_load_before_a_strike_is_that_since_the_one_before() -> None:
    history = history_of(run())
    _, window, _ = windows_of(PLAN, history)
    hit = next(e.t for e in window.history.of(kinds.Rule) if e.phase == "hit")
    assert load_of(window.history, TARGETS[1], hit, ()).before
    story = run()
    of(story, 1, "aimed")["t"] = hit - 1
    _, window, _ = windows_of(PLAN, history_of(story))
    assert not load_of(window.history, TARGETS[1], hit, ()).before


def test_a_plan_keeps_its_targets() -> None:
    again = Plan.from_json(PLAN.to_json())
    assert (again.targets, again.struck) == (TARGETS, TARGETS)
    assert plan().struck == (plan().target,)
    assert [each.plan.target for each in windows_of(PLAN, history_of(run()))] == [*TARGETS]
