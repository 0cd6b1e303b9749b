"""Rules as values, and the headers they are matched against."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract.speaker import read_back
from harness.model import events as kinds
from harness.protocols.kafka import frames
from harness.protocols.kafka.steps import Api
from harness.wire.cell import WireCell
from harness.wire.rules import (
    Action,
    After,
    ArmedRule,
    Direction,
    FreezeScope,
    Header,
    Rule,
    RuleError,
    is_prefix,
)
from tests.wire import kafka_frames as kf
from tests.wire.broker import request

if TYPE_CHECKING:
    from harness.model.events import Event
    from harness.model.history import HistoryWriter, Line

PLAIN = Rule("r", Action.HOLD)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": ""}, "needs an id"),
        ({"occurrence": 0}, "counts from 1"),
        ({"limit": 0}, "never fire"),
        ({"delay_s": 1.0}, "delay_s belongs"),
        ({"action": Action.DELAY}, "delay_s belongs"),
        ({"granted": True}, "only an answer can be granted"),
        ({"action": Action.CUT, "freeze": FreezeScope.NODE}, "only a hold can freeze"),
        ({"api": Api.FETCH, "record": "a"}, "Fetch request cannot be selected by record"),
        ({"api": Api.END_TXN, "topic": "t"}, "EndTxn request cannot be selected by topic"),
        ({"api": Api.FETCH, "transactional_id": "t"}, "cannot be selected by transactional id"),
        ({"since": "r"}, "cannot count from itself"),
        ({"error": "NOT_COORDINATOR"}, "an error belongs to the action answer"),
        ({"action": Action.ANSWER, "api": Api.FETCH}, "an error belongs to the action answer"),
        ({"forward": True}, "only what is answered is forwarded"),
        ({"action": Action.ANSWER, "error": "NOT_COORDINATOR"}, "must be named by its step"),
        (
            {"action": Action.ANSWER, "error": "NOT_COORDINATOR", "api": Api.METADATA},
            "a Metadata is never refused by",
        ),
        (
            {"action": Action.ANSWER, "error": "PRODUCER_FENCED", "api": Api.PRODUCE},
            "a Produce is never refused by",
        ),
        (
            {
                "action": Action.ANSWER,
                "error": "NOT_COORDINATOR",
                "api": Api.HEARTBEAT,
                "direction": Direction.RESPONSE,
            },
            "only a request can be answered",
        ),
        (
            {
                "action": Action.ANSWER,
                "error": "NOT_ENOUGH_REPLICAS",
                "api": Api.PRODUCE,
                "forward": True,
            },
            "NOT_ENOUGH_REPLICAS says that a Produce is not done: it cannot be forwarded",
        ),
    ],
)
def test_a_rule_that_could_never_do_what_it_says_is_refused(
    change: dict[str, Any], says: str
) -> None:
    """Impossible combinations are refused when they are written, in one line."""
    with pytest.raises(RuleError, match=says) as caught:
        replace(PLAIN, **change)
    assert "\n" not in str(caught.value)


def test_rules_survive_the_control_connection() -> None:
    """A rule is the same after its way through plain values; nonsense is refused."""
    rule = Rule(
        "r", Action.DELAY, Api.END_TXN, Direction.RESPONSE, record="a", delay_s=0.5, limit=None
    )
    assert Rule.from_json(rule.to_json()) == rule
    answers = Rule(
        "r", Action.ANSWER, Api.PRODUCE, error="REQUEST_TIMED_OUT", forward=True, since="mark"
    )
    assert Rule.from_json(answers.to_json()) == answers
    wrong = (
        {"role": 7},
        {"occurrence": "2"},
        {"granted": "yes"},
        {"api": ["Produce"]},
        {"delay_s": None},
        {"colour": 1},
    )
    for nonsense in (
        {},
        {"id": "r", "action": "explode"},
        *({"id": "r", "action": "cut"} | each for each in wrong),
    ):
        with pytest.raises(RuleError, match="not a rule"):
            Rule.from_json(nonsense)


@pytest.mark.parametrize(
    "rule",
    [
        Rule("r", Action.DELAY, Api.PRODUCE, delay_s=1, limit=None, least=9, occurrence=2),
        Rule("r", Action.HOLD, role="x", client="{key}.x", freeze=FreezeScope.NODE, since="mark"),
        Rule("r", Action.DROP, Api.FETCH, Direction.RESPONSE, record="a", topic="t", granted=True),
        Rule("r", Action.CUT, Api.END_TXN, transactional_id="tx", after=After.BLACK_HOLE),
        Rule("r", Action.ANSWER, Api.PRODUCE, error="REQUEST_TIMED_OUT", forward=True),
    ],
)
def test_what_a_cell_says_of_a_rule_is_read_back(rule: Rule) -> None:
    """All that a rule selects and does stands in a line that is no damage."""
    written: list[Event | Line] = []
    writer = SimpleNamespace(write_all=written.extend)
    cell = WireCell("c", "key", routes=frozenset(), writer=cast("HistoryWriter", writer))
    cell.rules["mark"] = ArmedRule(PLAIN, "key")
    cell.arm(rule)
    cell.disarm(rule.id)
    armed, disarmed = map(read_back, written)
    assert isinstance(armed, kinds.Rule)
    assert isinstance(disarmed, kinds.Rule)
    assert (armed.action, armed.limit, armed.facts) == (rule.action, rule.limit, None)
    assert (disarmed.phase, disarmed.seen, disarmed.fired) == (kinds.RulePhase.DISARMED, 0, 0)


@pytest.mark.parametrize(
    ("prefix", "client", "fits"),
    [
        ("k.producer.2", "k.producer.2", True),
        ("k.producer.2", "k.producer.2-1", True),
        ("k.producer.2", "k.producer.20", False),
        ("k.", "k.producer.2", True),
        ("", "anything", True),
        ("k.producer", "x.producer", False),
    ],
)
def test_client_prefixes_end_at_words(prefix: str, client: str, fits: bool) -> None:
    assert is_prefix(prefix, client) is fits


def test_the_cell_key_is_filled_into_the_client() -> None:
    """``{key}`` stands for the key of the cell the rule is armed in."""
    armed = ArmedRule(Rule("r", Action.CUT, client="{key}.producer"), "c0ffee")
    header = Header("producer", "c0ffee.producer.1", "Produce", Direction.REQUEST)
    assert armed.fits(header)
    assert not armed.fits(replace(header, client="decaf.producer.1"))


@given(
    api=st.sampled_from([0, 1, 18, 68, 500]),
    corr=st.integers(-(2**31), 2**31 - 1),
    client=st.none() | st.text(max_size=40),
    body=st.binary(max_size=40),
)
def test_request_headers_are_read_back(
    api: int, corr: int, client: str | None, body: bytes
) -> None:
    """Whatever API, correlation id and client id a request carries, its header says so."""
    frame = request(api, corr, client, body)
    size = frames.frame_size(frame, least=frames.MIN_REQUEST_BYTES)
    assert size == len(frame) - 4
    until = frames.request_head_bytes(frame[4 : 4 + frames.request_prefix_bytes(size)], size)
    head = frames.request_head(frame[4 : 4 + until], size)
    assert (head.api, head.corr, head.client) == (api, corr, client)


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("transactional_id", [None, "t" * 200])
def test_acks_are_found_without_decoding(
    version: int, acks: int, transactional_id: str | None
) -> None:
    """The acks of every Produce version are read from the first bytes, since acks=0 has no answer
    to wait for.
    """
    writer = kf.Writer(transactional_id=transactional_id)
    frame = kf.produce(1, "k.p.1", b"", version=version, acks=acks, writer=writer)[4:]
    until = frames.request_head_bytes(frame[:10], len(frame))
    assert frames.produce_acks(frame, frames.request_head(frame[:until], len(frame))) == acks
    assert (
        frames.produce_acks(frame[: until + 1], frames.request_head(frame[:until], len(frame)))
        is None
    )


def test_acks_are_found_behind_header_tags() -> None:
    """A flexible header may carry tagged fields of later versions: they are skipped, not read as
    acks.
    """
    frame = kf.produce(1, "k.p.1", b"", version=9, acks=0)[4:]
    until = frames.request_head_bytes(frame[:10], len(frame))
    tagged = frame[:until] + b"\x02\x00\x03abc\x01\x81\x01" + b"x" * 129 + frame[until + 1 :]
    assert frames.produce_acks(tagged, frames.request_head(tagged[:until], len(tagged))) == 0
