"""A verdict on a user's pipeline says which of three could be wrong: what was found, when it was
asked for, what was concluded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.evidence import evidence_of
from harness.judge.rules import Rule
from harness.judge.verdict import Kind
from harness.model.semantics import Semantic
from tests.judge.runs import COUNT, RECORDS, TARGET, before, duplicate, first, judged, lose, run

if TYPE_CHECKING:
    from harness.judge.verdict import Judgement
    from tests.judge.histories import Story

QUERY = "sqlite SELECT id FROM results"


def asked(story: Story, *, rows: int, **fields: Any) -> Story:
    """Let the output of a story be read, as the observer of a declared pipeline says."""
    line = story.tell("output_read", "observer", asked=QUERY, rows=rows)
    before(story, first(story, "log"), line)
    line |= fields
    return story


def evidence(found: Judgement) -> dict[str, Any]:
    """Return what a judgement stands on."""
    detail: dict[str, Any] = found.details["evidence"]
    return detail


def test_a_query_that_finds_too_little_is_seen() -> None:
    """The record is lost because two rows had no id: the query is the one to look at."""
    story = run()
    lose(story, TARGET, "recorded")
    row = story.tell("unnamed", "observer", count=2, text="header")
    before(story, first(story, "log"), row)
    found = judged(asked(story, rows=COUNT + 1))
    assert found.verdict.kind is Kind.BROKEN
    assert evidence(found)["found"] == {
        "asked": QUERY,
        "rows": COUNT + 1,
        "results": COUNT - 1,
        "unnamed": 2,
        "unfilled": 0,
    }
    assert next(evidence_of(found)) == (
        "found",
        f"{COUNT + 1} rows by {QUERY}: {COUNT - 1} results, 2 without an id",
    )


def test_a_question_that_came_too_soon_is_seen() -> None:
    """The output was read 0.2 s after a record was delivered: the moment is the one to look at."""
    story = run()
    lose(story, RECORDS[-1], "recorded")
    asked(story, rows=COUNT - 1)
    read = first(story, "output_read")
    [*_, fetched] = [row for row in story.events if row["event"] == "fetched"]
    drained = [row for row in story.events if row["event"] == "drain"][-1]
    drained |= {"rest": 0.1, "why": "learnt", "rested": 0.2, "gap": 0.0, "missing": 1}
    late = read["t"] - fetched["t"]
    found = judged(story)
    assert evidence(found)["asked"] == {
        "last": "delivered",
        "record": fetched["record"],
        "after_s": round(late / 1e9, 3),
        "required_s": 0.1,
        "why": "learnt",
    }
    _, when, _ = evidence_of(found)
    assert when == (
        "asked",
        (
            "0.0 s after the last that was seen of a record "
            f"({fetched['record']} delivered); 0.1 s of silence were required (learnt)"
        ),
    )


@pytest.mark.parametrize(
    ("semantic", "rule"),
    [(Semantic.AT_LEAST_ONCE, Rule.LOST), (Semantic.EXACTLY_ONCE, Rule.FORBIDDEN)],
)
def test_the_conclusion_is_named_by_its_rule(semantic: Semantic, rule: Rule) -> None:
    """What was found is the same; the promise decides which rule speaks first."""
    story = run()
    duplicate(story, TARGET)
    lose(story, RECORDS[0], "recorded")
    found = judged(asked(story, rows=COUNT), semantic=semantic)
    assert found.verdict.rule is rule
    assert [*evidence_of(found)][-1] == ("concluded", rule)


def test_nothing_is_said_where_nobody_said_how_the_output_was_read() -> None:
    found = judged(run())
    assert found.details.get("evidence") is None
    assert [*evidence_of(found)] == []


def test_an_output_that_was_read_before_the_drain_had_ended_is_no_authority() -> None:
    found = judged(asked(run(), rows=COUNT, t=1))
    assert found.verdict.rule is Rule.INSTRUMENT
    assert "asked before the drain had ended" in found.verdict.reason
    assert evidence(found)["asked"]["last"] is None, (
        "what came behind the question was not before it"
    )
