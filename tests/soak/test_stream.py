"""A stream in memory: planted losses and duplicates are found exactly, in the window of their
fault, and it goes on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model.semantics import Semantic
from harness.soak.flow import Stream
from harness.soak.found import as_lines, fault_line
from harness.soak.legs import MARKS, results_name
from harness.soak.stream import Streaming
from harness.soak.waves import FAULTS, LEGS, SOAK_FILE, WAVES_FILE, SoakError
from harness.stages.bulk.marks import Marks
from scenarios import plain
from tests.soak.play import Harm, Play

if TYPE_CHECKING:
    from pathlib import Path

    from harness.soak.found import Streamed

SCENARIOS = (
    plain.ACK_LOST,
    plain.REQUEST_LOST,
    plain.COMMIT_LOST,
    plain.PRODUCER_CRASH_BEFORE_SEND,
    plain.BROKER_CRASH_BEFORE_APPEND,
    plain.DELIVERY_LOST,
)
RECORDS = 400_001


class Heard:
    """Progress that keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.lines.append(text)


def asked(folder: Path, semantic: Semantic = Semantic.AT_LEAST_ONCE, **more: object) -> Stream:
    """Ask for a stream of many small units, fault after fault."""
    return replace(Stream(folder, SCENARIOS, semantic, RECORDS, 1e9, seed=3, unit=500), **more)  # type: ignore[arg-type]


def streamed(play: Play, heard: Heard | None = None) -> Streamed:
    """Run it to its end."""
    return Streaming(play.asked, play, heard or Heard(), poll_s=0).run()


def test_what_ends_as_it_should(tmp_path: Path) -> None:
    """Every record offered is accounted for; what theory predicts is in the window of its fault; no
    history is kept.
    """
    heard, play = Heard(), Play(asked(tmp_path))
    found = streamed(play, heard)
    assert found.kind is Kind.KEPT
    assert found.recorded == RECORDS
    assert len(found.faults) > 10
    assert {one.scenario for one in found.faults} == {one.id for one in SCENARIOS}
    for one, fault in zip(found.faults, play.struck, strict=True):
        assert (one.number, one.scenario, one.partition, one.hit) == (
            fault.number,
            fault.scenario.id,
            fault.partition,
            fault.hit,
        )
        partition, low, end = play.harmed[one.number]
        twice = min(2, end - low)  # the last unit may have a single record
        wanted = [[partition, low, twice, 1]] if one.scenario in {"ack-lost", "commit-lost"} else []
        assert (one.lost, one.duplicated) == ([], wanted)
    for before, after in zip(found.faults, found.faults[1:], strict=False):
        assert all(
            one[1] <= other[0] for one, other in zip(before.windows, after.windows, strict=True)
        )
    assert not list((tmp_path / FAULTS).iterdir())
    counts = {"lost": 0, "duplicated": 0, "phantom": 0, "absorbed": 0}
    assert found.outside == {"counts": counts, "lost": [], "duplicated": [], "late": []}
    assert fault_line(found.faults[0]) in heard.lines
    assert as_lines(found, RECORDS, tmp_path)[-1] == "KEPT"


def test_planted_losses_and_duplicates_are_named_with_their_fault(tmp_path: Path) -> None:
    """Exactly those positions, in that window; what is in no window is told apart; both break the
    promise.
    """
    play = Play(
        asked(tmp_path),
        {1: Harm(lose=7), 3: Harm(duplicate=4), 5: Harm(strange=1)},
        beside={0: Harm(lose=1)},
    )
    found = streamed(play)
    by_number = {one.number: one for one in found.faults}
    partition, low, _ = play.harmed[1]
    assert [run for one in found.faults if one.number != 1 for run in one.lost] == []
    assert by_number[1].lost == [[partition, low, 7]]
    assert by_number[1].verdict == Kind.BROKEN
    assert "7 lost" in by_number[1].reason
    assert by_number[1].saved == f"{FAULTS}/1"
    assert (tmp_path / FAULTS / "1" / "history").is_dir()
    natural = 2 * (by_number[3].scenario in {"ack-lost", "commit-lost"})
    assert by_number[3].counts["duplicated"] == 4 + natural
    explained = natural or by_number[3].scenario == "broker-crash-before-append"
    assert by_number[3].verdict == (Kind.KEPT if explained else Kind.VOID)
    assert by_number[5].counts["phantom"] == 1
    assert by_number[5].verdict == Kind.BROKEN
    assert found.outside is not None
    assert found.outside["lost"] == [[0, 0, 1]]
    assert found.kind is Kind.BROKEN
    assert found.recorded == RECORDS - 8
    told = as_lines(found, RECORDS, tmp_path)
    assert "outside every fault's window: lost 0:0 (1 records)" in told
    assert any(
        line.startswith("fault 1, ") and f"lost {partition}:{low:,}-{low + 6:,} (7 records)" in line
        for line in told
    )


def test_what_is_permitted_breaks_nothing(tmp_path: Path) -> None:
    """At most once: losses are named, duplicates break the promise."""
    play = Play(asked(tmp_path, Semantic.AT_MOST_ONCE), {0: Harm(lose=5), 1: Harm(duplicate=2)})
    found = streamed(play)
    assert found.faults[0].counts["lost"] >= 5
    assert found.faults[0].verdict == Kind.KEPT
    assert found.faults[1].verdict == Kind.BROKEN


def test_a_loss_outside_of_every_window_that_is_permitted_proves_that_something_is_wrong(
    tmp_path: Path,
) -> None:
    """No fault has caused it: the whole is void."""
    found = streamed(Play(asked(tmp_path, Semantic.AT_MOST_ONCE), beside={0: Harm(lose=3)}))
    assert {one.verdict for one in found.faults} == {Kind.KEPT}
    assert found.kind is Kind.VOID


def test_a_disarmed_fault_is_void(tmp_path: Path) -> None:
    found = streamed(Play(asked(tmp_path), {2: Harm(disarm=True)}))
    assert [one.reason for one in found.faults if not one.green] == ["the fault did not fire"]
    assert found.kind is Kind.VOID


def test_the_wrong_process_killed_is_void(tmp_path: Path) -> None:
    play = Play(asked(tmp_path, scenarios=(plain.COMMIT_LOST,)), {2: Harm(wrong=True)})
    found = streamed(play)
    bad = [one for one in found.faults if not one.green]
    assert [(one.number, one.verdict) for one in bad] == [(2, Kind.VOID)]
    assert bad[0].reason == f"the fault had to kill consumer-{bad[0].partition}, and did not"


def test_it_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    """Ctrl-C, and a crash in the middle of a fault: what was judged stays, what was not is done
    again, and counted once.
    """
    first = Play(asked(tmp_path), ends_at=60_000)
    part = streamed(first)
    assert part.interrupted
    assert part.outside is None
    assert 0 < part.recorded < RECORDS
    assert as_lines(part, RECORDS, tmp_path)[-1].startswith("PARTIAL, ")
    behind = [window[1] for window in part.faults[-1].windows]
    lines = (tmp_path / WAVES_FILE).read_bytes().splitlines(keepends=True)
    with (tmp_path / WAVES_FILE).open("ab") as opened:
        opened.write(
            json.dumps({"armed": len(part.faults), "scenario": "x", "lows": behind}).encode()
            + b"\n"
        )
        opened.write(b'{"cut')
    second = Play(asked(tmp_path), beside={behind[0]: Harm(lose=1)})
    rest = streamed(second)
    assert rest.faults[: len(part.faults)] == part.faults
    assert [one.number for one in rest.faults] == list(range(len(rest.faults)))
    assert second.struck[0].number == len(part.faults)
    with Marks(tmp_path / LEGS / "0" / MARKS) as marks:
        assert marks.get(0, "done") > behind[0]
    assert rest.outside is not None
    assert (
        sum(run[2] for one in rest.faults for run in one.lost) + rest.outside["counts"]["lost"] == 1
    )
    assert rest.recorded == RECORDS - 1
    again = streamed(Play(asked(tmp_path)))
    assert (again.faults, again.kind, again.recorded) == (rest.faults, rest.kind, rest.recorded)
    assert lines == (tmp_path / WAVES_FILE).read_bytes().splitlines(keepends=True)[: len(lines)]


@pytest.mark.parametrize(
    ("semantic", "kind"),
    [(Semantic.AT_MOST_ONCE, Kind.BROKEN), (Semantic.AT_LEAST_ONCE, Kind.VOID)],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_copy_that_is_added_to_a_judged_window_is_found(
    tmp_path: Path, semantic: Semantic, kind: Kind, *, resumed: bool
) -> None:
    """At both edges of a window, long after its fault; also where the stream goes on in another
    leg.
    """
    one = asked(tmp_path, semantic, scenarios=(plain.DELIVERY_LOST,), faults_per_minute=1e-9)
    if resumed:
        assert streamed(Play(one, ends_at=120_000)).interrupted
    late = {
        150_000: lambda: (first_window(tmp_path)[0], 2),
        150_500: lambda: (first_window(tmp_path)[1] - 1, 1),
    }
    found = streamed(Play(one, late=late))
    low, high = found.faults[0].windows[0]
    assert found.outside is not None
    assert found.outside["late"] == [[0, low, 2, 1], [0, high - 1, 1, 1]]
    assert found.outside["duplicated"] == []
    assert found.total("duplicated") == 3
    assert found.kind is kind
    told = (
        f"after the window was judged: duplicated 0:{low:,}-{low + 1:,}, 0:{high - 1:,} (3 records)"
    )
    assert told in as_lines(found, RECORDS, tmp_path)


def first_window(folder: Path) -> list[int]:
    """Return the first fault's window in partition 0."""
    lines = [json.loads(line) for line in (folder / WAVES_FILE).read_text().splitlines()]
    windows: list[int] = next(line["windows"][0] for line in lines if "windows" in line)
    return windows


def test_what_was_strange_before_it_went_on_is_not_forgotten(tmp_path: Path) -> None:
    """A value that was no record, in no fault's window of the leg before."""
    part = streamed(Play(asked(tmp_path), beside={0: Harm(strange=1)}, ends_at=60_000))
    assert part.interrupted
    assert not any(one.counts["phantom"] for one in part.faults)
    found = streamed(Play(asked(tmp_path)))
    assert found.outside is not None
    assert found.outside["counts"]["phantom"] == 1
    assert found.kind is Kind.BROKEN


@pytest.mark.parametrize(
    "line", ["{}", '{"verdict": "kept"}', '{"leg": 1}', '{"armed": 99}', '{"counts": {}}', "[]"]
)
def test_a_line_that_no_stream_writes(tmp_path: Path, line: str) -> None:
    streamed(Play(asked(tmp_path), ends_at=60_000))
    with (tmp_path / WAVES_FILE).open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(SoakError, match=r"is damaged.*; start anew"):
        streamed(Play(asked(tmp_path)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (MARKS, None),
        (MARKS, b""),
        (MARKS, b"short"),
        (results_name(0), None),
        (results_name(0), b"no database" * 1000),
    ],
)
def test_a_damaged_leg(tmp_path: Path, name: str, content: bytes | None) -> None:
    """What it recorded is not known: nothing is called lost for it."""
    streamed(Play(asked(tmp_path), ends_at=60_000))
    for file in (tmp_path / LEGS / "0").glob(f"{name}*"):
        file.unlink()
    if content is not None:
        (tmp_path / LEGS / "0" / name).write_bytes(content)
    with pytest.raises(SoakError, match=r"is damaged.*; start anew"):
        streamed(Play(asked(tmp_path)))


def test_another_stream_does_not_go_on(tmp_path: Path) -> None:
    streamed(Play(asked(tmp_path, records=20_000)))
    with pytest.raises(SoakError, match=r"was begun with other settings \(seed\)"):
        streamed(Play(asked(tmp_path, records=20_000, seed=4)))
    (tmp_path / WAVES_FILE).write_text("{\n")
    with pytest.raises(SoakError, match="is damaged"):
        streamed(Play(asked(tmp_path, records=20_000)))
    (tmp_path / SOAK_FILE).write_text('{"seed": 3}')
    with pytest.raises(SoakError, match="was begun with other settings"):
        streamed(Play(asked(tmp_path, records=20_000)))


def test_what_stands_still_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.soak.stream.STILL_S", 0.05)
    found = streamed(Play(asked(tmp_path / "with faults"), stops_at=30_000))
    assert found.kind is Kind.STUCK
    assert "30000 taken" in str(found.stuck)
    assert as_lines(found, RECORDS, tmp_path)[-1].endswith("STUCK")
    assert (
        streamed(Play(asked(tmp_path / "without", records=2000), stops_at=500)).kind is Kind.STUCK
    )


def test_without_a_fault_nothing_is_proved(tmp_path: Path) -> None:
    """Too few records for one: void."""
    found = streamed(Play(asked(tmp_path, records=2000)))
    assert found.faults == []
    assert found.recorded == 2000
    assert found.kind is Kind.VOID


@pytest.mark.parametrize(
    ("semantic", "kind"),
    [(Semantic.AT_LEAST_ONCE, Kind.BROKEN), (Semantic.AT_MOST_ONCE, Kind.VOID)],
)
def test_a_loss_without_a_fault_breaks_the_promise(
    tmp_path: Path, semantic: Semantic, kind: Kind
) -> None:
    found = streamed(Play(asked(tmp_path, semantic, records=2000), beside={0: Harm(lose=1)}))
    assert found.faults == []
    assert found.total("lost") == 1
    assert found.kind is kind


def test_faults_follow_from_the_seed(tmp_path: Path) -> None:
    """The same one draws the same faults, partitions and hits; another one others."""
    one, same, other = (asked(tmp_path, seed=seed) for seed in (1, 1, 2))
    first, second, third = (
        [each.draw(number, 200) for number in range(30)] for each in (one, same, other)
    )
    assert first == second
    assert first != third
    assert {fault.hit for fault in first} > {1, 2}
    assert max(fault.hit for fault in first) <= 20
    assert {fault.partition for fault in first} == {0, 1}
    assert all(one.draw(number, 4).hit <= 2 for number in range(50))
