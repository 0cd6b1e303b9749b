"""The steps of a run, by names that hold in every run of the same load.

A frame that is about records is named by one of them, and by how often such a frame was about it
before. One that names no record is the k-th of its kind that its process is part of, counted from
the nearest frame before it that has a name: steps counted from the beginning of a run stand
elsewhere in the next one. What has the same name in several dry runs is a step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.model.history import History

_Like: TypeAlias = "tuple[object, ...]"
FAILPOINT = "failpoint"
"""In place of a frame's direction, for a place inside a program. Its name stands in place of an
API.
"""
WRITE = "durable write"
"""In place of a frame's direction, for a durable write of a program."""
_JOINS = frozenset({"JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "api-88"})
"""The requests of a group's member in any of Kafka's group protocols; the last one is
StreamsGroupHeartbeat.
"""
_WORDS = 3
"""A client id of ours is ``<cell key>.<node>.<incarnation>``, and what the client puts
behind it.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ``ordinal`` (from 1): the how-manieth frame of its role, API and direction that is
    about ``record``.

    Without a record: the how-manieth of its kind in its process since ``anchor``. Refused answers
    are not counted, as the wire's rules pass over them.
    """

    role: str
    api: str
    direction: str
    ordinal: int
    record: str | None = None
    anchor: Step | None = None
    protocol: str = ""
    """The protocol of its connection, because protocols share names, such as SEND and ACK. Empty:
    the history does not say.
    """

    def __str__(self) -> str:
        """What it is called in a plan and in a report.

        >>> end = Step("producer", "EndTxn", Direction.REQUEST, 2, "k1-3")
        >>> str(end), str(Step("producer", "Metadata", Direction.RESPONSE, 1, anchor=end))
        ('producer.EndTxn.request.k1-3.2',
        'producer.Metadata.response.1-after-EndTxn.request.k1-3.2')
        """
        kind = f"{self.role}.{self.api}.{self.direction}"
        if self.anchor is None:
            return f"{kind}.{self.record}" + (f".{self.ordinal}" if self.ordinal > 1 else "")
        return f"{kind}.{self.ordinal}-after-{str(self.anchor).partition('.')[2]}"

    @property
    def behind(self) -> str:
        """What it is called where everybody knows what it is counted from.

        >>> end = Step("producer", "EndTxn", Direction.REQUEST, 1, "k1-3")
        >>> Step("producer", "Metadata", Direction.RESPONSE, 1, anchor=end).behind
        'producer.Metadata.response.1'
        """
        return (
            str(self)
            if self.anchor is None
            else f"{self.role}.{self.api}.{self.direction}.{self.ordinal}"
        )

    @property
    def at(self) -> str:
        """The record that it is about, or is counted from."""
        return self.record or (self.anchor.at if self.anchor else "")

    @property
    def kind(self) -> tuple[str, str, str]:
        """Role, API and direction."""
        return self.role, self.api, self.direction

    @property
    def like(self) -> _Like:
        """What it has in common with the steps of its kind at other records."""
        return *self.kind, self.anchor and self.anchor.kind


@dataclass(frozen=True, slots=True)
class NamedFrame:
    """A frame of a run: its line, the process it is of, and by which steps it can be named."""

    line: kinds.Frame
    process: str
    names: tuple[Step, ...]
    protocol: str = ""
    named_member: bool = False
    """Its process has joined a group by a name of its own."""

    @property
    def kind(self) -> tuple[str, str, Direction]:
        """Role, API and direction."""
        return _kind_of(self.line)


@dataclass(frozen=True, slots=True)
class Trace:
    """The frames of one run, in the wire's order."""

    frames: tuple[NamedFrame, ...]

    @property
    def names(self) -> frozenset[Step]:
        """Every name that a frame of it has."""
        return frozenset(name for frame in self.frames for name in frame.names)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps that several dry runs have in common: ``found`` in the order of the first run.
    ``frames``: how many frames the first run had. ``early``: its frames before the first named one
    of their process, at which no rule can be armed. ``named`` and ``recurred``, each by whether a
    record names the frames: frames of the first run that have a name, and those whose name recurred
    in all other runs.
    """

    found: tuple[tuple[Step, NamedFrame], ...]
    frames: int
    early: int
    named: Mapping[bool, int]
    recurred: Mapping[bool, int]
    refused: frozenset[Step] = frozenset()
    """Requests that a broker refused by itself in one of the runs."""
    retried: Mapping[_Like, int] = field(default_factory=dict)
    """By :attr:`Step.like`, the least ordinal of a request that brokers refuse by themselves now
    and then, and behind which the next one came only where they did: that is not sure to come.
    """


def shared_roles(history: History, key: str) -> frozenset[str]:
    """Return the roles of several processes that share the work of one group, so that another one
    takes over. A user's stage may be several processes that no client id tells apart. The kernel
    tells who owns a connection, except one that was closed before lostack looked.
    """
    owners: dict[int | None, str] = {e.conn: str(e.pid) for e in history.of(kinds.Owner)}
    members: dict[str, set[str]] = {}
    for line in history.of(kinds.Frame):
        if line.api in _JOINS and line.dir == Direction.REQUEST:
            process = process_of(line, key)
            who = owners.get(line.conn) if process == _foreign(line) else process
            members.setdefault(str(line.role), set()).update({who} if who else ())
    return frozenset(role for role, found in members.items() if len(found) > 1)


def process_of(line: kinds.Frame, key: str) -> str:
    """Return what names the process that a frame is of, as the wire counts: an incarnation of ours,
    or a foreign stage.

    >>> ours = kinds.Frame(t=0, client="c0ffee.producer.2-rdkafka", role="producer")
    >>> process_of(ours, "c0ffee")
    'producer.2'
    >>> process_of(kinds.Frame(t=0, client="my-app", role="producer"), "c0ffee")
    'route producer'
    """
    words = str(line.client).split(".", _WORDS - 1)
    if len(words) < _WORDS or words[0] != key:
        return _foreign(line)
    number = words[2]
    end = next((at for at, char in enumerate(number) if not char.isalnum()), len(number))
    return f"{words[1]}.{number[:end]}"


def _foreign(line: kinds.Frame) -> str:
    return f"route {line.role}"


def _kind_of(line: kinds.Frame) -> tuple[str, str, Direction]:
    """Return role, API and direction of a frame."""
    return str(line.role), str(line.api), Direction(str(line.dir))


def trace(history: History, key: str, called: Mapping[str, str] | None = None) -> Trace:
    """Return the frames of a run, those that are about records with their names. No rule acts at a
    frame behind which more of its message follows, so it is none of them.

    ``key``: the cell's; ``called``: what is another name of each of its records, if it has one.
    """
    called = called or {}
    seen: Counter[tuple[str, str, str, str]] = Counter()
    spoken: dict[int | None, str] = {
        e.conn: e.protocol for e in history.of(kinds.Conn) if e.protocol is not None
    }
    frames = []
    named: set[str] = set()
    for line in history.of(kinds.Frame):
        if line.unfinished:
            continue
        process = process_of(line, key)
        named |= {process} if line.named_member else set()
        names, protocol = [], spoken.get(line.conn, "")
        if not _refused(line):
            for record in (called.get(name, name) for name in line.records or ()):
                kind = _kind_of(line)
                seen[*kind, record] += 1
                names.append(Step(*kind, seen[*kind, record], record, protocol=protocol))
        frames.append(NamedFrame(line, process, tuple(names), protocol, process in named))
    return Trace(tuple(frames))


def anchored(found: Trace, stable: frozenset[Step]) -> Trace:
    """Name the frames that are about no record by the nearest ``stable`` step of their process
    before them.
    """
    anchors: dict[str, Step] = {}
    since: dict[str, Counter[tuple[str, str, Direction]]] = defaultdict(Counter)
    frames = []
    for frame in found.frames:
        names = frame.names
        anchor = anchors.get(frame.process)
        if not frame.line.records and anchor is not None and not _refused(frame.line):
            since[frame.process][frame.kind] += 1
            names = (
                Step(
                    *frame.kind,
                    since[frame.process][frame.kind],
                    anchor=anchor,
                    protocol=frame.protocol,
                ),
            )
        if near := next((name for name in frame.names if name in stable), None):
            anchors[frame.process] = near
            since[frame.process].clear()
        frames.append(replace(frame, names=names))
    return Trace(tuple(frames))


def intersected(runs: Sequence[Trace]) -> Steps:
    """Return the steps that all of several runs of one load have.

    Raises:
        ValueError: there is no run.
    """
    if not runs:
        raise ValueError("steps need at least one dry run")
    by_record = frozenset.intersection(*(run.names for run in runs))
    whole = [anchored(run, by_record) for run in runs]
    stable = frozenset.intersection(*(run.names for run in whole))
    found = tuple(_steps(whole[0], stable))
    named = Counter(bool(frame.line.records) for frame in whole[0].frames if frame.names)
    recurred = Counter(step.record is not None for step, _ in found)
    early = sum(not frame.names and not _refused(frame.line) for frame in whole[0].frames)
    return Steps(found, len(whole[0].frames), early, dict(named), dict(recurred), *_refusals(whole))


def _refusals(runs: Sequence[Trace]) -> tuple[frozenset[Step], dict[_Like, int]]:
    """Return the requests that a broker refused, as :attr:`Steps.refused` and
    :attr:`Steps.retried` have them.
    """
    refused: set[Step] = set()
    done: set[tuple[_Like, int]] = set()
    denied: set[tuple[_Like, int]] = set()
    anyhow: set[tuple[_Like, int]] = set()
    for run in runs:
        answers = {(f.line.conn, f.line.corr) for f in run.frames if _refused(f.line)}
        asked = {
            name: frame.line.corr is not None and (frame.line.conn, frame.line.corr) in answers
            for frame in run.frames
            if frame.line.dir == Direction.REQUEST
            for name in frame.names
        }
        for name, was in asked.items():
            refused |= {name} if was else set()
            (denied if was else done).add((name.like, name.ordinal))
            if not was and replace(name, ordinal=name.ordinal + 1) in asked:
                anyhow.add((name.like, name.ordinal))
    unsure = sorted(denied & done - anyhow, key=itemgetter(1), reverse=True)
    return frozenset(refused), dict(unsure)


def _steps(run: Trace, stable: frozenset[Step]) -> Iterator[tuple[Step, NamedFrame]]:
    """Yield one step for each frame that has a stable name: the first of its records that all runs
    name it by.
    """
    for frame in run.frames:
        if name := next((name for name in frame.names if name in stable), None):
            yield name, frame


def _refused(line: kinds.Frame) -> bool:
    return line.dir == Direction.RESPONSE and bool(line.error)
