"""What a producer is given by standard input: every line, and the end behind the last; both are
written down.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.model.history import HistoryWriter, read_history
from harness.pipelines.inputs import Resend
from harness.runtimes.interface import NodeStateError
from harness.systems.declared.feed.feeders import FileFeeder, StdinFeeder
from harness.systems.declared.feed.waves import Waves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = {f"r-{number}": f"line {number}" for number in range(5)}


class Reading:
    """A producer of one life, and its node, that takes what it is given; ``refuses``: it does not
    read so many times.
    """

    name = "producer"
    incarnation = 1

    def __init__(self, history: HistoryWriter, refuses: int = 0) -> None:
        self.node = self
        self.processes = self
        self.got: list[str] = []
        self._history = history
        self._refuses = refuses

    def write_stdin(self, data: bytes) -> None:
        """Take a line."""
        if self._refuses:
            self._refuses -= 1
            raise NodeStateError("it does not read")
        self.got.append(data.decode().strip())

    def close_stdin(self) -> None:
        """Take the end, and let the history show when."""
        self._history.write(kinds.Fault(phase="closed"))


@pytest.fixture
def history(tmp_path: Path) -> Iterator[HistoryWriter]:
    """Return where it is written down."""
    with HistoryWriter(tmp_path / "runner.jsonl", cell="c", by="runner") as made:
        yield made


@pytest.mark.parametrize("refuses", [0, 3])
def test_who_hurries_gives_all_and_then_the_end(
    history: HistoryWriter, tmp_path: Path, refuses: int
) -> None:
    """The end is told when it has been given, behind every line, and how many there were."""
    node: Any = Reading(history, refuses)
    seen: Any = SimpleNamespace(tried=lambda **_: set(LINES))
    so_far: Any = SimpleNamespace()  # it has one life: nobody asks what the one before was told
    waves = Waves(len(LINES), seen=lambda: False, moves=lambda: 0, fired=lambda: False)
    feeder = StdinFeeder(
        node,
        LINES,
        rate=1000 if refuses else 0.001,
        resend=Resend.NONE,
        history=history,
        so_far=so_far,
        records_seen=seen,
        waves=waves,
    )
    feeder.start()
    try:
        feeder.hurry()
    finally:
        feeder.close()
    assert node.got == [*LINES.values()]
    told = [(e.event, getattr(e, "record", None)) for e in read_history(tmp_path).events]
    assert told == [
        *(("taken", record) for record in LINES),
        ("fault", None),
        ("input_ended", None),
    ]
    [end] = read_history(tmp_path).of(kinds.InputEnded)
    assert (end.role, end.incarnation, end.given) == ("producer", 1, len(LINES))


@pytest.mark.parametrize("header", ["", "number,customer"])
def test_a_header_is_the_first_line_and_no_record(
    history: HistoryWriter, tmp_path: Path, header: str
) -> None:
    """Of a file, and of standard input, where every life of the producer has it."""
    first = [header] if header else []
    FileFeeder(tmp_path / "input.txt", LINES, header)
    assert (tmp_path / "input.txt").read_text(encoding="utf-8").splitlines() == [
        *first,
        *LINES.values(),
    ]
    reading = Reading(history)
    node: Any = reading
    seen: Any = SimpleNamespace(tried=lambda **_: set(LINES))
    so_far: Any = SimpleNamespace(of=lambda *_: iter(()))
    waves = Waves(len(LINES), seen=lambda: False, moves=lambda: 0, fired=lambda: False)
    feeder = StdinFeeder(
        node,
        LINES,
        rate=1000,
        resend=Resend.UNACKNOWLEDGED,
        history=history,
        so_far=so_far,
        records_seen=seen,
        waves=waves,
        header=header,
    )
    feeder.start()
    try:
        feeder.hurry()
        assert reading.got == [*first, *LINES.values()]
        reading.got.clear()
        reading.incarnation = 2
        feeder.hurry()
    finally:
        feeder.close()
    assert reading.got == [*first, *LINES.values()], (
        "nothing was acknowledged: all of it again, the header first"
    )
