"""Offer the records to a pipeline: by standard input, as a file, or into a topic; or let the
producer make them. By HTTP, and into a table: modules of their own.

The history says which records were offered.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from kafka import KafkaProducer

from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.pipelines.inputs import Resend
from harness.proofs.silence import SILENCE_S
from harness.runtimes.interface import NodeStateError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.model.history import HistoryWriter
    from harness.model.tail import SoFar
    from harness.systems.declared.brokers.kafka import KafkaBrokers
    from harness.systems.declared.feed.waves import Waves
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.wire.records import RecordsOnWire


PATIENCE_S = SILENCE_S + 60
"""How long (seconds) a record may take into the input topic: a broker may stand still meanwhile."""
WINDOW = 2
"""How many lines a program may hold unsent before the next one waits; doubled each time it shows
that it collects more.
"""
STARTS_S = 15.0
"""How long (seconds) the next line waits if the program has sent nothing yet."""
COLLECTS_S = 0.5
"""How long (seconds) the next line waits if the program has sent something."""


class Feeder(Protocol):
    """The interface of what offers the records."""

    @property
    def offered(self) -> int:
        """A number that grows while records are offered."""

    def start(self) -> None:
        """Begin to offer records."""

    def exhausted(self) -> bool:
        """Say whether everything has been offered and nothing will be offered again."""

    def trouble(self) -> str | None:
        """Say what went wrong, or return ``None``."""

    def close(self) -> None:
        """Stop, wherever it is."""


def acknowledged(so_far: SoFar) -> set[str]:
    """Return the records that a producer knows to be stored: answered without an error, and their
    transactions committed.

    The wire saw the answers. An answer counts when it reached the client.
    """
    told = {e.record for e in so_far.of(kinds.ProduceAnswer) if e.error == 0 and e.reached}
    ends = {e.request: e for e in so_far.of(kinds.EndTxn) if e.commit}
    answers = {e.request for e in so_far.of(kinds.EndTxnAnswer) if e.error == 0 and e.reached}
    sent = [e for e in so_far.of(kinds.Sent) if e.transactional]
    committed = {
        e.record
        for e in sent
        for request, end in ends.items()
        if request in answers and end.producer_id == e.producer_id and end.t > e.t
    }
    return told - {e.record for e in sent} | (told & committed)


class StdinFeeder:
    """Writes lines to the producer's standard input and closes it after the last line.

    ``resend`` says whether a restarted producer is given unacknowledged lines again.
    """

    def __init__(
        self,
        node: CommandNode,
        lines: Mapping[str, str],
        *,
        rate: float,
        resend: Resend,
        history: HistoryWriter,
        so_far: SoFar,
        records_seen: RecordsOnWire,
        waves: Waves,
        header: str = "",
    ) -> None:
        """``header``: a line that each incarnation of the producer is given first."""
        self.offered = 0
        self._header = header
        self._headed = 0
        """The incarnation that was given the header."""
        self._node = node
        self._lines = dict(lines)
        self._pause_s = 1 / rate
        self._resend = resend
        self._history = history
        self._so_far = so_far
        self._records_seen = records_seen
        self._waves = waves
        self._position = {record: position for position, record in enumerate(lines, start=1)}
        self._window = WINDOW
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._hurries = False
        self._todo = list(self._lines)
        self._given: list[str] = []
        self._life = 0
        self._done_life = 0
        self._since = 0
        self._now: list[str] = []
        self._last = 0.0
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._life = self._node.processes.incarnation
        self._last = time.monotonic()
        self._thread.start()

    def exhausted(self) -> bool:
        """Say whether the present incarnation of the producer has been given everything."""
        return self._done_life == self._node.processes.incarnation

    def trouble(self) -> str | None:
        """Return ``None``: if a line cannot be written, the end of the producer says why."""
        return None

    def close(self) -> None:
        """End."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def hurry(self) -> None:
        """Give the producer all remaining lines at once, close its input, and return when it has
        taken both.

        Raises:
            WaitTimeoutError: the producer does not read its input in time.
        """
        self._hurries = True
        self._waves.release()
        self._wake.set()
        wait_until(
            self.exhausted, within_s=STARTS_S, because="the producer to take the rest of its input"
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            if (not self._hurries or self.exhausted()) and self._wake.wait(self._pause_s):
                self._wake.clear()
                continue
            life, node = self._node.processes.incarnation, self._node.processes.node
            if life != self._life:
                self._life = life
                self._since, self._now, self._last = time.monotonic_ns(), [], time.monotonic()
                self._window = WINDOW
                self._begin_again()
            if node is None or self._done_life == life:
                continue
            if not self._todo:
                node.close_stdin()
                self._history.write(
                    kinds.InputEnded(
                        role=self._node.name,
                        incarnation=life,
                        given=len(self._given),
                    )
                )
                self._done_life = life
                continue
            record = self._todo[0]
            if not self._waves.lets(self._position[record]) or (
                not self._hurries and self._is_behind()
            ):
                continue
            try:
                if self._header and self._headed != life:
                    node.write_stdin(self._header.encode() + b"\n")
                    self._headed = life
                node.write_stdin(self._lines[record].encode() + b"\n")
            # the process is dead or does not read: the next incarnation, or a later turn, gets the
            # line
            except NodeStateError:
                continue
            self._todo.pop(0)
            self._given.append(record)
            self._now.append(record)
            self._last = time.monotonic()
            self.offered += 1
            self._history.write(kinds.Taken(record=record))

    def _is_behind(self) -> bool:
        """Whether the program holds enough unsent lines. More lines wait, so that there is load
        before the fault and after it.

        A program that collects lines before it sends any also gets the next line, only later.
        """
        tried = self._records_seen.tried(since=self._since)
        in_hand = len([record for record in self._now if record not in tried])
        if in_hand < self._window:
            return False
        collects = tried or self._window > WINDOW
        if time.monotonic() - self._last < (COLLECTS_S if collects else STARTS_S):
            return True
        self._window *= 2
        return False

    def _begin_again(self) -> None:
        if self._resend is Resend.UNACKNOWLEDGED:
            known = acknowledged(self._so_far)
            self._todo = [record for record in self._given if record not in known] + self._todo
            self._given = [record for record in self._given if record in known]


class FileFeeder:
    """Writes a file of all lines before the producer starts. The producer itself must remember how
    far it has read.

    :mod:`harness.systems.declared.feed.holding` paces what the producer sends, as it does for a
    producer that makes its records.
    """

    offered = 0

    def __init__(self, file: Path, lines: Mapping[str, str], header: str = "") -> None:
        """``header``: a first line that is not a record."""
        first = [header] if header else []
        file.write_text(
            "".join(f"{line}\n" for line in (*first, *lines.values())), encoding="utf-8"
        )

    def start(self) -> None:
        """Do nothing: the file is complete."""

    def exhausted(self) -> bool:
        """Return true: the file is complete."""
        return True

    def trouble(self) -> str | None:
        """Return ``None``: the file is written."""
        return None

    def close(self) -> None:
        """Leave the file where it is."""


class OwnFeeder:
    """Offers nothing: the producer makes its records itself."""

    offered = 0

    def start(self) -> None:
        """Do nothing: the producer needs no input."""

    def exhausted(self) -> bool:
        """Return true: there is nothing to offer."""
        return True

    def trouble(self) -> str | None:
        """Return ``None``: nothing can fail here."""
        return None

    def close(self) -> None:
        """Do nothing: nothing was started."""


class PacedFeeder(ABC):
    """Offers one record after the other from its own thread, at a rate (records a second), wave by
    wave.
    """

    def __init__(self, *, rate: float, history: HistoryWriter, waves: Waves) -> None:
        self._pause_s = 1 / rate
        self._history = history
        self._waves = waves
        self.offered = 0
        self._stop = threading.Event()
        self._done = threading.Event()
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Start the thread that offers the records."""
        self._thread.start()

    def exhausted(self) -> bool:
        """Say whether every record has been offered, and then answered or given up."""
        return self._done.is_set()

    def trouble(self) -> str | None:
        """Say what went wrong, or return ``None``."""
        return self._trouble

    def close(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Offer all records; set :attr:`_done` at the end, or :attr:`_trouble` if that fails."""

    def _may_offer(self, position: int) -> bool:
        """Wait one pause, then say whether the record's wave has begun. Call it again until
        :attr:`_stop` is set.
        """
        return not self._stop.wait(self._pause_s) and self._waves.lets(position)


class TopicFeeder(PacedFeeder):
    """Writes the records into topics, not through the wire, each stored exactly once.

    The producer is idempotent and waits for every acknowledgement.
    """

    def __init__(
        self,
        brokers: KafkaBrokers,
        lines: Mapping[str, tuple[str, str, str]],
        *,
        rate: float,
        history: HistoryWriter,
        waves: Waves,
    ) -> None:
        """``lines``: of each record its topic, its key, and its line."""
        super().__init__(rate=rate, history=history, waves=waves)
        self._brokers = brokers
        self._lines = lines

    def _run(self) -> None:
        let_in = self._brokers.own_access.for_kafka_python() if self._brokers.own_access else {}
        producer = KafkaProducer(
            bootstrap_servers=self._brokers.direct,
            acks="all",
            metrics_enabled=False,
            delivery_timeout_ms=int(PATIENCE_S * 1000),
            **let_in,
        )
        try:
            for position, (record, of) in enumerate(self._lines.items(), start=1):
                topic, key, line = of
                while not self._stop.is_set() and not self._may_offer(position):
                    continue
                if self._stop.is_set():
                    return
                producer.send(topic, line.encode(), key=key.encode()).get(timeout=PATIENCE_S)
                self._history.write(kinds.Taken(record=record))
                self.offered += 1
            self._done.set()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run proves nothing and says so
            self._trouble = f"{record}: not put into {topic}: {type(error).__name__}: {error}"
        finally:
            producer.close(timeout=1)
