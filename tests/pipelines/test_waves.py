"""Load in three waves: what is offered when, by a feeder of lines and without a broker."""

from __future__ import annotations

import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.cell import make_load
from harness.model.waiting import wait_until
from harness.pipelines.inputs import Resend
from harness.systems.declared.feed import feeders as feeding
from harness.systems.declared.feed import waves
from harness.systems.declared.feed.feeders import StdinFeeder
from harness.systems.declared.feed.http import HttpFeeder
from harness.systems.declared.feed.waves import Waves

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON_S = 5.0


class Stage:
    """A producer that reads lines. With ``deaf`` it sends nothing of what it has read."""

    name = "producer"

    def __init__(self) -> None:
        self.incarnation = 1
        self.node: Any = self
        self.processes: Any = self
        self.lines: list[str] = []
        self.closed = 0
        self.deaf = False

    def write_stdin(self, line: bytes) -> None:
        """Take a line."""
        self.lines.append(line.decode().strip())

    def close_stdin(self) -> None:
        """That was the last."""
        self.closed += 1

    def tried(self, since: int = 0) -> set[str]:
        """What the wire has seen of it."""
        del since
        return set() if self.deaf else set(self.lines)


class Rig:
    """A feeder of 24 lines, and what a test says of the fault."""

    def __init__(self, count: int = 24, rate: float = 5000.0) -> None:
        self.stage, self.seen, self.fired = Stage(), threading.Event(), threading.Event()
        self.waves = Waves(
            count,
            seen=self.seen.is_set,
            moves=lambda: len(self.stage.lines),
            fired=self.fired.is_set,
        )
        stage: Any = self.stage
        history: Any = SimpleNamespace(write=lambda *_, **__: None)
        so_far: Any = SimpleNamespace()
        self.feeder = StdinFeeder(
            stage,
            {str(n): str(n) for n in range(1, count + 1)},
            rate=rate,
            resend=Resend.NONE,
            history=history,
            so_far=so_far,
            records_seen=stage,
            waves=self.waves,
        )
        self.feeder.start()

    def has(self, count: int) -> None:
        """Wait until it has so many lines, and asks for the next."""
        wait_until(
            lambda: len(self.stage.lines) >= count, within_s=SOON_S, because=f"{count} lines"
        )
        turns = threading.Event()
        for _ in range(20):
            turns.wait(0.002)
        assert len(self.stage.lines) == count


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A feeder."""
    found = Rig()
    yield found
    found.feeder.close()


def test_three_waves(rig: Rig) -> None:
    """A third; the second when the step was seen; the last when the fault is healed, and then the
    end of the input.
    """
    rig.has(8)
    rig.seen.set()
    rig.has(16)
    rig.fired.set()
    wait_until(lambda: rig.waves.waiting, within_s=SOON_S, because="it to wait for the fault")
    assert not rig.feeder.exhausted()
    rig.waves.release()
    rig.has(24)
    wait_until(rig.feeder.exhausted, within_s=SOON_S, because="the end of the input")
    assert (rig.stage.closed, rig.waves.waiting) == (1, False)


def test_a_wave_for_each_of_several_targets_and_one_behind_each() -> None:
    """The wave behind a target, and the one with the next, come when the fault is healed there."""
    fired = 0
    gate = Waves(35, seen=lambda: True, moves=lambda: 0, fired=lambda: fired, targets=3)
    passed = iter(range(1, 36))
    assert [gate.lets(next(passed)) for _ in range(10)] == [True] * 10
    for end in (20, 30):
        fired += 1
        waits = [gate.waiting, gate.lets(end - 9), gate.waiting]
        gate.go_on()
        assert [*waits, gate.waiting] == [False, False, True, False]
        assert [gate.lets(next(passed)) for _ in range(10)] == [True] * 10
    fired += 1
    assert not gate.lets(31)
    gate.release()
    assert all(map(gate.lets, passed))


def test_what_is_behind_a_target_that_is_never_struck_comes_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing moves any more, and no fault is under way: then the rest must not wait for it."""
    now = 0.0
    monkeypatch.setattr(waves, "time", SimpleNamespace(monotonic=lambda: now))
    gate = Waves(35, seen=lambda: True, moves=lambda: 0, fired=lambda: 1, targets=3)
    assert all(map(gate.lets, range(1, 11)))
    gate.go_on()
    assert all(map(gate.lets, range(11, 21)))
    assert not gate.lets(21)
    assert not gate.waiting
    now += waves.STILL_S + 1
    assert gate.lets(21)


def test_the_second_wave_holds_every_target() -> None:
    for count in (12, 13, 24, 48, 100):
        for seed in range(1, 20):
            target = make_load(seed=seed, salt="x", count=count, unit=1).target
            gate = Waves(count, seen=lambda: False, moves=lambda: 0, fired=lambda: False)
            assert not gate.lets(target.position), "not with the first"
            gate = Waves(count, seen=lambda: True, moves=lambda: 0, fired=lambda: False)
            assert gate.lets(target.position), "nor only with the last"


def test_a_target_behind_the_middle_is_waited_for_by_nobody() -> None:
    """A point of a sweep may strike at any record. What follows its target waits for its fault, but
    for one record: the step may come with it.
    """
    for target in (17, 20, 23, 24):
        fired = [0]
        gate = Waves(
            24, seen=lambda: True, moves=lambda: 0, fired=partial(sum, fired), target_at=target
        )
        assert all(map(gate.lets, range(1, min(target + 1, 24) + 1)))
        assert not any(map(gate.lets, range(target + 2, 25)))
        fired.append(1)
        assert not any(map(gate.lets, range(target + 2, 25)))
        gate.release()
        assert all(map(gate.lets, range(target + 2, 25)))


def test_where_nothing_moves_the_next_wave_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is not to be seen, a fault that never fires: it goes on. One that has fired is
    waited for.
    """
    monkeypatch.setattr(waves, "STILL_S", 0.05)
    found = Rig()
    try:
        wait_until(lambda: found.stage.closed, within_s=SOON_S, because="the end of the input")
    finally:
        found.feeder.close()
    struck = Rig()
    try:
        struck.seen.set()
        struck.fired.set()
        struck.has(16)
        wait_until(
            lambda: struck.waves.waiting, within_s=SOON_S, because="it to wait for the fault"
        )
        threading.Event().wait(
            0.2
        )  # four times as long as a fault that has not fired is waited for
        struck.has(16)
    finally:
        struck.feeder.close()


def test_the_end_of_the_input_may_be_wanted_at_once(rig: Rig) -> None:
    """With everything that is left, though the fault is not healed and the program has sent
    nothing.
    """
    rig.has(8)
    rig.fired.set()
    rig.stage.deaf = True
    rig.feeder.hurry()
    assert (len(rig.stage.lines), rig.stage.closed) == (24, 1)


def test_a_program_that_collects_is_given_more_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time it shows that it has not enough, twice as much: else a long input would never come
    to its end.
    """
    monkeypatch.setattr(feeding, "STARTS_S", 0.2)
    monkeypatch.setattr(feeding, "COLLECTS_S", 0.05)
    found = Rig(count=600, rate=50_000.0)
    found.stage.deaf = True
    found.waves.release()
    try:
        wait_until(found.feeder.exhausted, within_s=20, because="the end of the input")
    finally:
        found.feeder.close()
    assert len(found.stage.lines) == 600


def test_who_refuses_a_record_again_and_again_makes_no_progress() -> None:
    """The drain counts its seconds from the last progress: by such a program it must not be kept
    waiting for ever.
    """
    status = [503]

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    asked: list[str] = []
    gate = Waves(1, seen=lambda: True, moves=lambda: 0, fired=lambda: False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        feeder = HttpFeeder(
            f"http://127.0.0.1:{server.server_port}/",
            {"a": "{}"},
            rate=1000.0,
            resend=Resend.UNACKNOWLEDGED,
            waves=gate,
            history=SimpleNamespace(write=lambda event: asked.append(event.record)),  # type: ignore[arg-type]
        )
        feeder.start()
        try:
            wait_until(lambda: len(asked) > 3, within_s=SOON_S, because="it to be asked again")
            assert feeder.offered == 0
            status[0] = 200
            wait_until(feeder.exhausted, within_s=SOON_S, because="the end of the input")
            assert feeder.offered == 1
        finally:
            feeder.close()
            server.shutdown()


def test_several_writers_have_as_many_requests_under_way() -> None:
    """None of four is answered before all of them have come; who has one writer sends them one
    after the other.
    """
    together = threading.Barrier(4)
    most: list[int] = []
    under_way: list[str] = []

    class Meeting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            under_way.append(body)
            most.append(len(under_way))
            if self.path == "/together":
                together.wait(timeout=SOON_S)
            under_way.remove(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Meeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for path, writers in (("together", 4), ("alone", 1)):
            most.clear()
            gate = Waves(8, seen=lambda: True, moves=lambda: 0, fired=lambda: False)
            gate.release()
            feeder = HttpFeeder(
                f"http://127.0.0.1:{server.server_port}/{path}",
                {f"r-{number}": f"{number}" for number in range(8)},
                rate=1000.0,
                resend=Resend.UNACKNOWLEDGED,
                waves=gate,
                history=SimpleNamespace(write=lambda *_, **__: None),  # type: ignore[arg-type]
                writers=writers,
            )
            feeder.start()
            try:
                wait_until(feeder.exhausted, within_s=SOON_S, because="the end of the input")
            finally:
                feeder.close()
            assert (feeder.offered, max(most)) == (8, writers)
        server.shutdown()
