"""Every sentence about a record of the saved real runs is read a second time, against the plain
lines of its history.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from harness.judge.accounting import account
from harness.model.history import HISTORY, read_history
from harness.report.page.lines import Lines
from harness.report.page.paths import anomalous
from harness.report.page.seen import seen_of
from tests.gate.saved import EXPECTED, archives, unpack
from tests.report.second_reading import SecondReading, clauses, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[1] / "judge" / "golden"
TOLD = ("lost", "set_aside", "duplicated")
RARE = frozenset(
    {
        "answer lost",
        "acknowledges in vain",
        "is refused",
        "not given",
        "offered",
    }
)
"""Kinds of clauses of which the saved runs may have none."""


class RecordSentence(NamedTuple):
    """A record of a cell, and its sentence."""

    reading: SecondReading
    row: dict[str, Any]
    sentence: str

    @property
    def wrong(self) -> list[str]:
        """What is wrong with the sentence."""
        return list(self.reading.wrong(self.row["record"], self.sentence, self.row))

    def false(self, sentence: str) -> list[str]:
        """What is false in another sentence about the record."""
        return list(self.reading.false(self.row["record"], sentence, self.row))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[RecordSentence]:
    """All records of which something is said, in the archives and in the golden cells."""
    folder = tmp_path_factory.mktemp("archives")
    cells = [cell for archive in archives() for cell in unpack(archive, folder / archive.name)]
    counts = ((cell, json.loads((cell / EXPECTED).read_text())["counts"]) for cell in cells)
    cells = [cell for cell, count in counts if any(count.get(name) for name in TOLD)]
    found = []
    for history in (cell / HISTORY for cell in (*cells, *sorted(GOLDEN.iterdir()))):
        events = read_history(history).events
        lines, reading = Lines(events), SecondReading(lines_of(history))
        rows: list[Any] = [*anomalous(account(events).rows)]
        found += [RecordSentence(reading, row, seen_of(row, lines)) for row in rows]
    return found


def test_every_clause_about_a_record_of_a_real_run_is_true(told: list[RecordSentence]) -> None:
    assert {each.sentence: each.wrong for each in told if each.wrong} == {}
    assert len(told) > 600
    kinds = {kind for each in told for _, kind, _ in clauses(each.sentence)}
    assert kinds >= set(CHANGED) - RARE


def _later(words: re.Match[str]) -> str:
    return f"{float(words[0]) + 100:.1f}"


def _more(words: re.Match[str]) -> str:
    return str(int(words[0]) + 1)


_AT = (r"\d+\.\d(?= s)", _later)
_WHO = (r"the (?:producer|consumer|processor|driver)|a program", "the sorter")
CHANGED: dict[str, tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = {
    "taken": (_AT, _WHO),
    "offered": (_AT,),
    "sent": (_AT, _WHO),
    "unsent": (_AT, _WHO),
    "acknowledged": (_AT, _WHO),
    "answered": (_AT, _WHO, (r"(?<=error )\d+", _more)),
    "acknowledgement lost": (_AT, _WHO),
    "answer lost": (_AT, _WHO),
    "acked": (_AT, _WHO),
    "refused": (_AT, _WHO),
    "unknown": (_AT, _WHO),
    "transaction": (_AT, _WHO, ("aborted|committed|unknown|fenced", "begun")),
    "ruled": (_AT, _WHO, ("held|released|discarded", "answered"), ("request|response", "frame")),
    "forgot": (_AT, (r"broker-\d", "broker-9")),
    "given": (_AT, _WHO),
    "not given": (_AT, _WHO),
    "acknowledges": (_AT, _WHO, ("acknowledged it|with nack", "with reject")),
    "acknowledges in vain": (_AT,),
    "is refused": (_AT,),
    "saved": (
        _AT,
        _WHO,
        (r"(?<=position )\d+", "0"),
        (r"(?<=partition )\d+", _more),
        (r"(?<=group )\S+(?=,)", "another"),
    ),
    "turned": (_AT, ("was killed|was started again", "was paused")),
    "others": (
        _AT,
        _WHO,
        (r"\d+(?= other)", _more),
        ("this one never again|not this one", "this one once more"),
    ),
    "no request": (("request", "frame"),),
    "no answer": (("answer", "frame"),),
    "no reader": (("reader", "sorter"),),
    "stored": ((r"\d+$", _more),),
    "hidden": ((r"(?<=at ).*", "partition 77 offset 7"),),
    "gone": ((r"\(\w+\)", "(purge)"),),
    "moved": ((r"\d+$", _more),),
    "output": ((r"has it \d+ times|does not have it", "has it 7 times"),),
}
"""By kind of clause: what can be changed in it, so that it is false."""


def test_a_clause_that_is_changed_is_found_false(told: list[RecordSentence]) -> None:
    """The second reading can fail: one time, name or number after the other is changed in one
    clause of each kind.
    """
    seen: dict[str, RecordSentence] = {}
    for each in told:
        for words, kind, _ in clauses(each.sentence):
            if kind in seen or kind is None:
                continue
            seen[kind] = each
            assert each.false(words) == []
            for pattern, other in CHANGED[kind]:
                changed = re.sub(pattern, other, words, count=1)
                assert changed != words, (words, pattern)
                assert each.false(changed), changed


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("no request with it was seen on the wire", "sent"),
        ("no answer to it was seen", "acknowledged"),
        ("no reader was seen to be given it", "given"),
        ("nothing more was sent after that", "sent"),
        ("the broker was killed at 1.0 s", "sent"),
    ],
)
def test_a_clause_that_is_added_is_found_false(
    told: list[RecordSentence], words: str, kind: str
) -> None:
    each = next(e for e in told if any(name == kind for _, name, _ in clauses(e.sentence)))
    assert each.false(f"{each.sentence}; {words}")


@pytest.mark.parametrize("kind", ["sent", "acknowledged", "answered"])
def test_a_send_or_an_answer_that_is_not_told_is_missed(
    told: list[RecordSentence], kind: str
) -> None:
    each = next(e for e in told if any(name == kind for _, name, _ in clauses(e.sentence)))
    left = "; ".join(words for words, name, _ in clauses(each.sentence) if name != kind)
    assert list(each.reading.left_out(each.row["record"], left, each.row))
