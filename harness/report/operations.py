"""A saved cell as operations (send, poll, transaction), in the form that Jepsen's workload for
logs reads.

One operation is an invocation and its completion: ``ok``, ``fail`` (it certainly did not happen) or
``info`` (nobody knows). Keys stand for partitions and values for records: both are numbers, and a
comment names them. It is written from what the wire saw, and ends with what the observer read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.model import events as kinds
from harness.model.events import Direction
from harness.model.failures import UsageError
from harness.model.states import Hop
from harness.protocols.kafka.steps import STEPS, Api, error_name
from harness.report.page.detail import history_of
from harness.report.record import NoRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.history import History
    from harness.saved import CellResult

Log: TypeAlias = tuple[str, int]
"""Topic and partition."""
REFUSALS: Final = {
    name for name, done in STEPS[str(Api.PRODUCE), Direction.REQUEST].errors.items() if not done
}
"""Errors after which a record is certainly not stored."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One line: an invocation or a completion.

    ``what``: send, poll or txn. ``value``: its parts, as text.
    """

    process: int
    kind: str
    what: str
    value: str
    time: int

    def line(self, index: int) -> str:
        """Return the line, with its number in the history."""
        return (
            f"{{:process {self.process}, :type :{self.kind}, :f :{self.what}, "
            f":value [{self.value}], :index {index}, :time {self.time}}}"
        )


@dataclass
class _Send:
    """A record that is sent, by one request or by the same one again."""

    log: Log
    record: str
    begun: int
    transaction: str | None
    ended: int = 0
    offset: int | None = None
    """Known to the client."""
    requests: int = 0
    refused: int = 0


@dataclass
class _Group:
    """What one operation sends: a record, or all of a transaction."""

    what: str
    sends: list[_Send]
    commit: bool = False
    asked: tuple[str, str | None] | None = None
    """The request that ends the transaction."""
    ended: int = 0
    kind: str = "info"

    @property
    def begun(self) -> int:
        """When the first of it was sent."""
        return self.sends[0].begun


class _Sends:
    """What was sent, operation by operation."""

    def __init__(self, history: History) -> None:
        self._sends: dict[tuple[object, ...], _Send] = {}
        self._by_request: dict[tuple[str, str], _Send] = {}
        self._open: dict[str, _Group] = {}
        self._ended: list[_Group] = []
        for event in history.of(
            kinds.Sent, kinds.Unsent, kinds.ProduceAnswer, kinds.EndTxn, kinds.InitProducer
        ):
            match event:
                case kinds.OfSend():
                    self._take_send(event)
                case kinds.ProduceAnswer():
                    self._take_answer(event)
                case kinds.EndTxn() | kinds.InitProducer() if event.reached is not False:
                    self._take_end(event)
        self._answers = {(e.by, e.request): e for e in history.of(kinds.EndTxnAnswer)}

    def groups(self) -> list[_Group]:
        """Return all operations, in the order in which they began."""
        alone = [
            _Group("send", [send], ended=send.ended, kind=_outcome(send))
            for send in self._sends.values()
            if send.transaction is None
        ]
        transactions = [*self._ended, *self._open.values()]
        for group in transactions:
            answer = None if group.asked is None else self._answers.get(group.asked)
            group.ended = max(group.ended, *(send.ended for send in group.sends))
            if answer is not None and answer.error == 0 and answer.reached:
                group.ended = max(group.ended, answer.t)
                group.kind = "ok" if group.commit else "fail"
        return sorted((*alone, *transactions), key=lambda group: group.begun)

    def _take_send(self, event: kinds.OfSend) -> None:
        if event.topic is None or event.partition is None:
            return  # a send to a queue has no partition
        log, name = (event.topic, event.partition), event.transactional_id
        new = _Send(log, event.record, event.t, name)
        send = self._sends.setdefault((*_identity(event), log), new)
        send.ended = event.t
        send.requests += 1
        send.refused += isinstance(event, kinds.Unsent)
        self._by_request[event.request, event.record] = send
        if send is new and name is not None:
            self._open.setdefault(name, _Group("txn", [])).sends.append(send)

    def _take_answer(self, event: kinds.ProduceAnswer) -> None:
        send = self._by_request.get((event.request, event.record))
        if send is None:
            return
        send.ended = event.t
        if event.error == 0 and event.reached and event.offset is not None and event.offset >= 0:
            send.offset = event.offset
        elif isinstance(event.error, int) and error_name(event.error) in REFUSALS:
            send.refused += 1

    def _take_end(self, event: kinds.EndTxn | kinds.InitProducer) -> None:
        group = self._open.pop(event.transactional_id or "", None)
        if group is None:
            return
        group.ended = event.t
        if isinstance(event, kinds.EndTxn):
            group.commit, group.asked = event.commit, (event.by, event.request)
        self._ended.append(group)


def operation_lines(results: Sequence[CellResult]) -> Iterator[str]:
    """Yield the operations of a cell.

    Raises:
        UsageError: these are several cells.
        NoRecordError: the cell has no history, or one without a log.
    """
    if len(results) > 1:
        raise UsageError(
            f"operations are those of one cell, and these are {len(results)}: name one with --only"
        )
    history = history_of(results[0]) if results else None
    lines = [] if history is None else list(operations_of(history))
    if not any(line.startswith("{") for line in lines):
        raise NoRecordError("the history has no operation on a log")
    yield from lines


def operations_of(history: History) -> Iterator[str]:
    """Yield the lines of a history as operations, with what their numbers stand for first."""
    told = _Operations(history)
    lines = told.in_order()
    for log, key in told.keys.items():
        yield f"; key {key} is {log[0]}/{log[1]}"
    for record, value in told.values.items():
        yield f"; value {value} is {record}"
    for index, operation in enumerate(lines):
        yield operation.line(index)


class _Operations:
    def __init__(self, history: History) -> None:
        self._history = history
        self._first = min((event.t for event in history.events), default=0)
        self.keys: dict[Log, int] = {}
        self.values = {e.record: e.position for e in history.of(kinds.Offered)}
        self._processes = 0
        self._free: list[tuple[int, int]] = []
        """Processes without an operation: since when, and its number."""

    def in_order(self) -> list[Operation]:
        """Return all lines, in the order of time."""
        lines = [line for group in _Sends(self._history).groups() for line in self._told(group)]
        lines += self._polls()
        return sorted(lines, key=lambda each: (each.time, each.kind == "invoke"))

    def _told(self, group: _Group) -> Iterator[Operation]:
        """Yield both lines, by a process that has nothing else to do. One whose operation nobody
        knows the end of does nothing more.
        """
        idle = next((each for each in sorted(self._free) if each[0] < group.begun), None)
        if idle is not None:
            self._free.remove(idle)
        process = self._new() if idle is None else idle[1]
        begun, ended = group.begun - self._first, max(group.ended, group.begun + 1) - self._first
        if group.kind != "info":
            self._free.append((ended + self._first, process))
        asked, told = self._values(group.sends)
        yield Operation(process, "invoke", group.what, asked, begun)
        yield Operation(
            process, group.kind, group.what, told if group.kind == "ok" else asked, ended
        )

    def _values(self, sends: Iterable[_Send]) -> tuple[str, str]:
        asked, told = [], []
        for send in sends:
            key, value = self._key(send.log), self._value(send.record)
            asked.append(f"[:send {key} {value}]")
            offset = "nil" if send.offset is None else str(send.offset)
            told.append(f"[:send {key} [{offset} {value}]]")
        return " ".join(asked), " ".join(told)

    def _new(self) -> int:
        self._processes += 1
        return self._processes - 1

    def _key(self, log: Log) -> int:
        return self.keys.setdefault(log, len(self.keys))

    def _value(self, record: str) -> int:
        return self.values.setdefault(record, max(self.values.values(), default=-1) + 1)

    def _polls(self) -> Iterator[Operation]:
        """Yield what readers were given, answer by answer; and at the end what the observer read.

        A connection is a process: a reader that goes on elsewhere does so on another one.
        """
        processes: dict[tuple[str, int | None], int] = {}
        answers: dict[tuple[str, int | None, int], list[kinds.OfCopy]] = defaultdict(list)
        for given in self._history.of(kinds.Fetched):
            if given.reached and given.at is not None:
                answers[given.by, given.conn, given.t].append(given)
        for (by, conn, at), copies in sorted(answers.items(), key=lambda each: each[0][2]):
            if (by, conn) not in processes:
                processes[by, conn] = self._new()
            yield from self._poll(processes[by, conn], copies, at)
        seen = [
            e
            for e in self._history.of(kinds.Stored)
            if e.visible and e.at is not None and e.record and e.hop != Hop.ASIDE
        ]
        if seen:
            yield from self._poll(self._new(), seen, max(e.t for e in seen))

    def _poll(self, process: int, copies: Iterable[kinds.OfCopy], at: int) -> Iterator[Operation]:
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for copy in copies:
            if isinstance(copy, kinds.Fetched | kinds.Stored) and copy.record:
                key = self._key((copy.topic or "", copy.partition or 0))
                found[key].append((copy.offset or 0, self._value(copy.record)))
        yield Operation(process, "invoke", "poll", "[:poll]", at - self._first - 1)
        yield Operation(process, "ok", "poll", f"[:poll {_map(found)}]", at - self._first)


def _map(found: Mapping[int, Iterable[tuple[int, int]]]) -> str:
    told = (
        f"{key} [{' '.join(f'[{offset} {value}]' for offset, value in sorted(pairs))}]"
        for key, pairs in sorted(found.items())
    )
    return f"{{{', '.join(told)}}}"


def _identity(sent: kinds.OfSend) -> tuple[object, ...]:
    """Return what the same request, sent again, shares with the first one."""
    if sent.attempt is not None:
        return sent.record, "attempt", sent.attempt
    if sent.producer_id is not None and sent.producer_id >= 0 and sent.sequence is not None:
        return sent.record, sent.producer_id, sent.producer_epoch, sent.sequence
    return sent.record, sent.by, sent.request


def _outcome(send: _Send) -> str:
    """Say how a send outside of transactions ended."""
    if send.offset is not None:
        return "ok"
    return "fail" if send.refused == send.requests else "info"
