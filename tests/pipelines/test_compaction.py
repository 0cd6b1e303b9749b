"""Compaction while a reader is down: what is superseded and what is lost, what proves it, and who
loses records by it.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.controls import NotFiredError, OnWire
from harness.faults import Compacted
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.record import Record
from harness.model.scenario import NotApplicable, Role
from harness.model.semantics import Semantic
from harness.model.states import Hop, LastHop, State
from harness.pipelines import failure_points, read_pipeline
from harness.pipelines.broker import CLEANING, KEPT_WHOLE, TopicSettings
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.firsts import COMPACTED
from harness.pipelines.fixes import WORDS, Advice
from harness.pipelines.shares import outlived
from harness.proofs.compaction import READ_ON, CompactedAway, compaction_signs, how_far
from harness.protocols.kafka.steps import Api
from harness.report.record import advice
from harness.systems.declared import compaction
from harness.systems.declared.compaction import HELD, CompactedLog, last_of_key
from harness.systems.declared.system import DeclaredSystem
from harness.systems.declared.transport import positions
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.kafka.log_copies import LogCopy, LogEnds, WholeLog
from harness.wire.rules import Direction, How
from tests.events import a_history, account, typed
from tests.judge.histories import Story
from tests.judge.recording import played
from tests.pipelines.scenes import told
from tests.pipelines.test_check import check
from tests.pipelines.test_declaration import GOOD, declared
from tests.pipelines.test_firsts import PROGRAMS
from tests.pipelines.test_run import authorities_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.pipelines.scenes import Scenes

FOLDER = PROGRAMS / "compacted"
GIVES = OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
KEYED = 'topic_settings = { "cleanup.policy" = "compact" }\n' + GOOD
GONE = {
    "event": "compacted",
    "t": 5,
    "record": "a",
    "topic": "orders",
    "partition": 1,
    "offset": 7,
    "next": 9,
    "later": 9,
}
BACK = {
    "event": "node",
    "t": 6,
    "phase": "started",
    "node": "consumer",
    "role": "consumer",
    "incarnation": 2,
}
OPENED = {"event": "conn", "t": 1, "phase": "open", "conn": 1, "role": "consumer"}
GIVEN = {
    "event": "fetched",
    "t": 7,
    "conn": 1,
    "record": "b",
    "topic": "orders",
    "partition": 1,
    "offset": 9,
    "reached": True,
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KEYED, None),
        (GOOD, "nothing that it reads is compacted: topic_settings has no "),
        (
            KEYED.replace('role = "consumer"', 'role = "consumer"\nbegins = "end"'),
            'the consumer declares begins = "end"',
        ),
    ],
)
def test_a_reader_has_it_whose_topic_is_declared_so(
    tmp_path: Path, text: str, said: str | None
) -> None:
    """It is among the points that take longer."""
    pipeline = read_pipeline(declared(tmp_path, text))
    [point] = [each for each in failure_points(pipeline) if each.id == COMPACTED]
    expected = point.expect[pipeline.claims]
    because = expected.because if isinstance(expected, NotApplicable) else None
    assert because == said or str(because).startswith(str(said))
    assert point.fault == Compacted(GIVES)
    assert point.waits_s > 0
    [point] = [each for each in failure_points(pipeline, attached=True) if each.id == COMPACTED]
    assert isinstance(point.expect[pipeline.claims], NotApplicable), "nobody else's topics"


def test_only_the_fault_compacts(tmp_path: Path) -> None:
    """Else the logs could not be read whole at the end, without a fault or with another one."""
    settings = TopicSettings(of={"a": {"cleanup.policy": "compact,delete", "segment.ms": "9"}})
    assert settings.to("a").items() >= {**KEPT_WHOLE, "segment.ms": "9"}.items()
    assert settings.to("b") == {}
    pipeline = read_pipeline(declared(tmp_path, KEYED))
    assert pipeline.started_broker.settings == CLEANING
    assert read_pipeline(declared(tmp_path, GOOD)).started_broker.settings == {}


def test_the_target_has_later_records_of_its_key_and_one_of_them_comes_last(tmp_path: Path) -> None:
    """The first takes its place, the second begins a new segment behind that."""

    def at(keys: str, among: frozenset[int] | None = None) -> set[int]:
        records = [Record(f"{k}-{n}", k, n, "") for n, k in enumerate(keys, start=1)]
        return set(outlived(records, among))

    assert at("xxxabaabc") == {4}
    assert at("xxxaabbaa") == {4}
    assert at("xxxaabbaa", frozenset({5})) == {5}, "of what the stage is given"
    assert at("xxxabcaac") == {4}, "both come last"
    assert at("xxxabcabc") == set()
    pipeline = read_pipeline(declared(tmp_path, KEYED))
    cells = cells_of(pipeline, failure_points(pipeline))
    [cell] = [each for each in cells if each.scenario.id == COMPACTED]
    load = aim(cell, {}).load()
    behind = [each for each in load.records[load.target.position :] if each.key == load.target.key]
    assert len(behind) > 1


def test_the_topic_is_compacted_while_its_reader_is_dead() -> None:
    """After all that it was given is recorded: nobody could read that again."""
    assert played(Compacted(GIVES)).done == [
        "arm fault",
        "armed",
        "fired",
        "LogCompaction.await_recorded",
        "kill",
        "applied",
        "resolve Fetch discard",
        "LogCompaction.compact",
        "restart",
        "healed",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"next": 7}, "a was still at 7 of orders/1: compaction did not take it"),
        ({"later": None}, "orders/1 had no later record with the key of a"),
        ({"later": 6}, "orders/1 had no later record with the key of a"),
        ({"t": 7}, "the consumer was not started again behind the compaction"),
        ({"record": "b"}, "not tried: the consumer was given b before compaction took it"),
    ],
)
def test_the_proof_is_a_gap_where_the_target_was(changed: dict[str, Any], said: str | None) -> None:
    """And a later record of its key behind it, when the reader comes back. Disarmed it is void."""
    lines = (OPENED, GONE | changed, BACK, GIVEN)
    course: Any = SimpleNamespace(history=a_history(map(typed, lines)))
    assert CompactedAway("consumer").trouble(course) == said
    course.history = a_history([typed(BACK)])
    assert CompactedAway("consumer").trouble(course) == "no log was compacted"


def test_it_is_void_where_two_stages_read_the_log() -> None:
    """The results may be of the one that lives, which was given what compaction took."""
    lines = [OPENED, OPENED | {"conn": 2, "role": "audit"}, GONE, BACK, GIVEN, GIVEN | {"conn": 2}]
    course: Any = SimpleNamespace(history=a_history(map(typed, lines)))
    said = CompactedAway("consumer").trouble(course)
    assert said == (
        "not tried: the audit reads orders, too, and nobody knows whose results what compaction "
        "took would have been"
    )
    course.history = a_history(map(typed, [*lines[:-1], GIVEN | {"conn": 2, "topic": "others"}]))
    assert CompactedAway("consumer").trouble(course) is None


def test_a_reader_that_goes_on_behind_the_gap_shows_it() -> None:
    assert compaction_signs(a_history([GONE, GIVEN])) == {READ_ON: {"a"}}
    for other in ({"reached": False}, {"offset": 10}, {"t": 4}, {"topic": "others"}):
        assert compaction_signs(a_history([GONE, GIVEN | other])) == {}
    assert compaction_signs(a_history([GIVEN])) == {}


# --- what is counted ------------------------------------------------------------------------------


def taken(later: str | None = "0:0:9") -> Callable[[Story], object]:
    """Plant that compaction took the record."""

    def plant(story: Story) -> None:
        row = story.tell("removed", record="a-1", why="compaction", later=later, topic="t")
        row.update(partition=0, epoch=0, offset=0, visible=True)

    return plant


def aborted(story: Story) -> None:
    """Plant that compaction took a copy of a transaction that was aborted."""
    taken()(story)
    story.events[-1]["visible"] = False


def jumped_over(story: Story) -> None:
    """Plant that compaction took the record when a reader was behind it already."""
    taken()(story)
    story.events[-1]["passed"] = True


def passed_by(story: Story) -> None:
    """Plant another copy that is still there, and that a reader has passed."""
    story.stored("a-1", 0, 4)
    story.log(0, 5)
    story.position(0, 5)


@pytest.mark.parametrize(
    ("plants", "state", "hop"),
    [
        ([taken()], State.SUPERSEDED, None),
        ([taken(), lambda s: s.fetched("a-1", 0, 0, reached=True)], State.SUPERSEDED, None),
        ([taken(), lambda s: s.recorded("a-1", 1, 0, 0)], State.RECORDED, None),
        ([taken(None)], State.LOST, LastHop.COMPACTED),
        ([taken(), lambda s: s.delivered("a-1", 0, 0)], State.LOST, LastHop.DELIVERED),
        ([taken(), passed_by], State.LOST, LastHop.SKIPPED),
        ([aborted], State.LOST, LastHop.COMPACTED),
        ([jumped_over], State.LOST, LastHop.COMPACTED),
        ([], State.LOST, LastHop.ACKED),
    ],
)
def test_superseded_is_only_what_no_reader_could_have_kept(
    plants: list[Callable[[Story], object]], state: State, hop: LastHop | None
) -> None:
    """Not the last record of its key, nor one to which its reader had come, or that is still there.
    Whom another reader's answer reached was told nothing of it.
    """
    story = Story()
    story.offered("a-1", "a", 1)
    story.acked("a-1", None)
    for plant in plants:
        plant(story)
    found = account(story.events)
    [row] = found.rows
    assert (row["state"], row["last_hop"]) == (state, hop)
    assert found.counts["superseded"] == (state is State.SUPERSEDED)


def copy(offset: int, key: bytes | None, value: bytes | None = b"", **other: Any) -> LogCopy:
    """Return a copy in partition 0, unless another is said."""
    said = {"partition": 0, "epoch": 0, "attempt": None, "origin": None, "visible": True, **other}
    return LogCopy(offset=offset, key=key, value=value, **said)


def test_a_tombstone_takes_the_place_of_its_key_too() -> None:
    """Not what is in another partition, nor what was aborted."""
    first, tombstone = copy(0, b"k"), copy(5, b"k", None)
    others = copy(6, b"k", partition=1), copy(7, b"k", visible=False), copy(8, b"l")
    assert last_of_key(WholeLog({}, (first, copy(3, b"k"), tombstone, *others)), first) == tombstone
    assert last_of_key(WholeLog({}, (first, *others)), first) is None


def test_every_copy_that_is_missing_is_told(scenes: Scenes) -> None:
    """With the last one of its key, if there was one."""
    scene = scenes("orders", fault=Compacted(GIVES))
    lines = [scene.cell.line(each).encode() for each in scene.load.records[:2]]
    whole = copy(0, b"k", lines[0]), copy(1, b"k", None), copy(2, b"l", lines[1])
    ends = {0: LogEnds(0, 3, 3)}
    scene.uncompacted[scene.pipeline.topic] = WholeLog(ends, whole)
    authorities_of(scene).observe_log(Hop.TOPIC, scene.pipeline.topic, WholeLog(ends, whole[2:]))
    gone = told(scene).of("removed", "record", "place", "why", "later")
    first = scene.load.records[0].id
    assert gone == [
        (first, "0:0:0", "compaction", "0:0:1"),
        (None, "0:0:1", "compaction", None),
    ]


def test_a_copy_that_a_reader_has_left_behind_is_told_as_passed(scenes: Scenes) -> None:
    """By what it was given, or has saved; not by what never reached it, nor in another topic.
    How far another stage is says nothing.
    """
    scene = scenes("orders", fault=Compacted(GIVES))
    topic = scene.pipeline.topic
    at = GIVEN | {"record": "b", "topic": topic, "partition": 0}
    saved = {"event": "committed", "by": "wire", "t": 3, "topic": topic, "partition": 1}
    saved |= {"group": "g", "request": "1:1", "conn": 1, "reached": True}
    seen = [at | {"offset": 1}, at | {"offset": 7, "reached": False}, saved | {"offset": 4}]
    seen += [at | {"offset": 9, "topic": "others"}, saved | {"offset": 9, "reached": False}]
    others = OPENED | {"conn": 2, "role": "audit"}
    seen += [OPENED, others, at | {"offset": 9, "conn": 2}, saved | {"offset": 9, "request": "2:1"}]
    found = how_far(a_history(map(typed, seen)), topic, "consumer")
    assert found == {(topic, 0): 2, (topic, 1): 4}
    scene.passed |= found
    last = scene.cell.line(scene.load.records[0]).encode()
    whole = copy(1, b"k"), copy(2, b"k"), copy(3, b"k", last), copy(3, b"l", partition=1)
    ends = {0: LogEnds(0, 4, 4), 1: LogEnds(0, 4, 4)}
    scene.uncompacted[topic] = WholeLog(ends, whole)
    authorities_of(scene).observe_log(Hop.TOPIC, topic, WholeLog(ends, whole[2:3]))
    gone = told(scene).of("removed", "place", "passed")
    assert gone == [("0:0:1", True), ("0:0:2", None), ("1:0:3", True)]


@pytest.mark.parametrize(
    ("line", "keys", "later"),
    [
        ("{id} {key}", "aba", "0:0:2"),
        ("{id} {key}", "abb", None),
        ("{id}", "abb", "0:0:2"),
        ("{id} {key}", "ab-", "0:0:2"),
    ],
)
def test_a_record_of_another_key_takes_no_place_though_the_log_says_so(
    scenes: Scenes, line: str, keys: str, later: str | None
) -> None:
    """A producer that gives all records one key loses all but the last: nobody superseded them.
    Where the line has no key, only the log knows one. A tombstone takes each place.
    """
    scene = scenes("orders", fault=Compacted(GIVES))
    scene.pipeline = dataclasses.replace(
        scene.pipeline, input=dataclasses.replace(scene.pipeline.input, line=line)
    )
    records = [Record(f"{key}-{at}", key, at, "") for at, key in enumerate(keys, start=1)]
    scene.known = {record.id: record for record in records}
    ids = {record.id.encode(): record.id for record in records if record.key != "-"}
    matcher: Any = SimpleNamespace(id_of=lambda copy: ids.get(copy.value))
    whole = [copy(at, b"all", record.id.encode()) for at, record in enumerate(records)]
    ends = {0: LogEnds(0, 3, 3)}
    nobody: Any = SimpleNamespace()
    found = Authorities(scene, nobody, matcher)
    found.observe_compacted("orders", WholeLog(ends, tuple(whole)), WholeLog(ends, (whole[2],)))
    assert told(scene).of("removed", "record", "later")[0] == (records[0].id, later)


class Wired:
    """A wire that says what was done, and holds an answer by each of two rules."""

    def __init__(self, cell: str) -> None:
        self._cell = cell
        self.done: list[object] = []

    def arm(self, _: str, rule: Any) -> None:
        """A rule."""
        self.done.append((rule.id, str(rule.action), rule.api.label, rule.role, rule.limit))

    def disarm(self, _: str, rule: str) -> None:
        """It holds no more."""
        self.done.append(f"disarm {rule}")

    def holds(self) -> list[Any]:
        """What it holds."""
        rules = HELD, "fault"
        return [SimpleNamespace(cell=self._cell, rule=each, held=f"of {each}") for each in rules]

    def resolve(self, held: str, how: How) -> None:
        """It goes on, or is discarded."""
        self.done.append(f"{how} {held}")


@pytest.mark.parametrize("recorded", [True, False])
def test_a_reader_is_given_nothing_more_before_it_is_killed(
    scenes: Scenes, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection would bring it what compaction then takes: nobody could have kept that.
    If it does not record what it has, it goes on, and the cell is void.
    """
    monkeypatch.setattr(compaction, "RECORDED_S", 0.5)
    scene = scenes("orders", fault=Compacted(GIVES))
    wire = Wired(scene.cell.id)
    controls: Any = SimpleNamespace(wire=wire)
    matcher: Any = SimpleNamespace(ids=lambda: {"a"} if recorded else set(), set_aside=set)
    given: Any = SimpleNamespace()
    log = CompactedLog(scene, controls, given, matcher)
    monkeypatch.setattr(log, "_given", lambda: {"a"})
    held = (HELD, "hold", "Fetch", "consumer", None)
    if recorded:
        log.await_recorded()
        assert wire.done == [held]
    else:
        with pytest.raises(NotFiredError, match="what the consumer was given to be recorded"):
            log.await_recorded()
        assert wire.done == [held, f"disarm {HELD}", f"release of {HELD}"]


def test_where_loss_is_permitted_nothing_is_awaited(scenes: Scenes) -> None:
    """A reader that filters never records all that it is given."""
    scene, nothing = scenes("orders", fault=Compacted(GIVES)), SimpleNamespace()
    scene.pipeline = dataclasses.replace(scene.pipeline, claims=Semantic.AT_MOST_ONCE)
    given: Any = nothing
    wire = Wired(scene.cell.id)
    controls: Any = SimpleNamespace(wire=wire)
    log = CompactedLog(scene, controls, given, given)
    log.await_recorded()
    with pytest.raises(NotFiredError, match="is in no topic that is compacted"):
        log.compact()
    assert wire.done == [], "no rule was armed, so none is disarmed"


def test_where_the_topic_is_not_compacted_nothing_is_done(scenes: Scenes) -> None:
    scene, nothing = scenes("orders", fault=Compacted(GIVES)), SimpleNamespace()
    given: Any = nothing
    controls: Any = SimpleNamespace(wire=Wired("c"))
    with pytest.raises(NotFiredError, match="is in no topic that is compacted"):
        CompactedLog(scene, controls, given, given).compact()


def test_a_cleaner_that_takes_nothing_is_named(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be off, or stuck; nothing is compacted then, and settings go back to what they were.
    The verdict has this sentence.
    """
    monkeypatch.setattr(compaction, "CLEANED_S", 0.3)
    scene, told_to = scenes("orders", fault=Compacted(GIVES)), {}
    topic = scene.pipeline.topic
    settings = TopicSettings(each={"cleanup.policy": "compact"})
    scene.pipeline = dataclasses.replace(scene.pipeline, topic_settings=settings)
    line = scene.cell.line(scene.load.target).encode()
    before, later = copy(0, b"k", line), copy(1, b"k", None)
    logs = [
        WholeLog({0: LogEnds(0, end, end)}, kept)
        for end, kept in ((1, (before,)), (2, (before, later)))
    ]

    class Observer:
        """Answers as a broker whose cleaner is off."""

        def copies(self, _: str) -> Any:
            """The target alone."""
            return logs[0].copies

        def ends(self, _: str) -> Any:
            """As at first."""
            return logs[0].ends

        def log(self, _: str) -> WholeLog:
            """As it is now."""
            return logs[1]

        def leaderships(self, _: str) -> Any:
            """One broker."""
            return {0: SimpleNamespace(leader=1)}

        def tell_topic(self, _: str, told: Any) -> None:
            """It takes settings."""
            told_to.update(told)

        def told_to(self, _: int, __: str, name: str) -> str | None:
            """And has them."""
            return told_to.get(name)

    scene.brokers.observer = Observer()  # type: ignore[attr-defined]
    feed: Any = SimpleNamespace(release=lambda: None, exhausted=lambda: True)
    ids = {line: scene.load.target.id}
    matcher: Any = SimpleNamespace(id_of=lambda each: ids.get(each.value))
    controls: Any = SimpleNamespace(wire=Wired("c"))
    with pytest.raises(NotFiredError) as said:
        CompactedLog(scene, controls, feed, matcher).compact()
    assert said.value.because == f"waited 0.3 s for the cleaner to compact {topic}"
    assert told_to["min.compaction.lag.ms"] == KEPT_WHOLE["min.compaction.lag.ms"]
    assert scene.superseded == set()


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One broker for both. These programs never pause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "ELSEWHERE_S", 6.0)
        found = DeclaredSystem(keep=True)
        yield found
        found.close()


@pytest.mark.kafka
@pytest.mark.rest(together=True)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("of", ["pipeline.toml", "right.toml", "one-key.toml"])
def test_who_counts_by_offsets_loses_what_compaction_has_left(
    system: DeclaredSystem, tmp_path: Path, of: str
) -> None:
    """What it has taken is lost by nobody, also where a tombstone took its place; but a producer
    that gives all records one key has lost the last one of each customer.
    """
    found = check(system, tmp_path, FOLDER / of, COMPACTED)[COMPACTED]
    wrong = of != "right.toml"
    kind = Kind.BROKEN if wrong else Kind.KEPT
    assert (found.verdict.kind, found.verdict.fired) == (kind, 1), found.verdict.reason
    history = read_history(found.directory / HISTORY)
    [gap] = history.of(kinds.Compacted)
    assert gap.next is not None
    assert gap.next > gap.offset
    counted = found.judgement.account
    assert counted.superseded
    last = {row["key"]: row["record"] for row in counted.rows}
    hops = {row["last_hop"] for row in counted.rows if row["record"] in counted.lost}
    said = "\n".join(advice(found))
    assert bool(counted.lost) is wrong
    if of == "right.toml":
        assert found.plan.target in counted.superseded
        assert READ_ON in found.verdict.reason
        assert f"{len(counted.superseded)} superseded" in found.verdict.reason
        tombstones = {line.place for line in history.of(kinds.Stored) if line.record is None}
        assert tombstones & {line.later for line in history.of(kinds.Removed)}
        return
    assert found.verdict.by_fault
    assert counted.superseded.isdisjoint(last.values()), "the last of a key is nobody's to take"
    if of == "pipeline.toml":
        assert WORDS[Advice.READ_PAST_GAPS] in said
    else:
        assert hops == {LastHop.COMPACTED}
        assert counted.lost <= set(last.values())
        assert WORDS[Advice.KEYS_OF_THEIR_OWN] in said
