"""What ZooKeeper's frames are about: which path, which data, and what answers them."""

from __future__ import annotations

import struct

import pytest

from harness.protocols.zookeeper.session import KeeperFrame, ZooKeeper
from harness.protocols.zookeeper.steps import STEPS, Op
from harness.wire.protocol import UNKNOWN, Need, Opaque, Unframed
from harness.wire.rules import Action, Rule, RuleError
from tests.protocols import zookeeper_frames as zk
from tests.protocols.conversation import FROM, TO, Conversation, value


class Talk(Conversation):
    """A session that has said hello, and what it makes of frames."""

    tells = ("record", "request")

    def __init__(self) -> None:
        self.protocol = ZooKeeper()
        super().__init__(self.protocol)
        self.say(zk.hello())
        self.hear(zk.welcome())


def test_an_answer_is_about_what_was_asked() -> None:
    """Its step, its path and its number are those of its question, and it says whether that was
    refused.
    """
    talk = Talk()
    assert talk.say(zk.set_data(4, "/a/b", value("k0-1"))) == [("sent", "k0-1", "7:2")]
    assert (talk.last.step, talk.last.facts["path"], talk.seen.subject.topics) == (
        "setData",
        "/a/b",
        {"/a/b"},
    )
    assert talk.hear(zk.answer(4, error=-103)) == [("produce_answer", "k0-1", "7:2")]
    assert (talk.last.step, talk.last.facts["path"], talk.last.facts["corr"]) == (
        "setData",
        "/a/b",
        2,
    )
    assert talk.seen.error == -103


def test_a_multi_is_about_all_its_paths() -> None:
    """And about what is in their data; where one part is refused, all are."""
    talk = Talk()
    parts = (
        (Op.CHECK, "/a", struct.pack(">i", 3)),
        (Op.CREATE, "/b", zk.create_body(value("k0-1"))),
        (Op.CREATE2, "/e", zk.create_body(b"")),
        (Op.CREATE_TTL, "/f", zk.create_body(b"") + bytes(8)),
        (Op.SET_DATA, "/c", zk.set_body(value("k0-2"))),
        (Op.DELETE, "/d", struct.pack(">i", -1)),
    )
    talk.say(zk.several(5, *parts))
    assert talk.seen.subject.topics == {"/a", "/b", "/c", "/d", "/e", "/f"}
    assert talk.seen.subject.records == {"k0-1", "k0-2"}
    talk.hear(zk.all_refused(5, 0, -101))
    assert (talk.last.step, talk.seen.error) == ("multi", -101)


def test_a_multi_that_cannot_be_read_voids() -> None:
    """One that holds what no multi may, or that ends too soon."""
    talk = Talk()
    talk.say(zk.several(5, (Op.EXISTS, "/a", b"")))
    assert talk.seen.voids
    whole = zk.several(6, (Op.DELETE, "/a", struct.pack(">i", -1)))[:-4]
    talk.say(struct.pack(">i", len(whole) - 4) + whole[4:])
    assert talk.seen.voids


def test_pings_are_no_steps_both_ways() -> None:
    """Whatever else is asked meanwhile."""
    talk = Talk()
    assert talk.session.feed(TO, zk.ping()) == Unframed(12)
    assert talk.session.feed(FROM, zk.pong()) == Unframed(20)


def test_a_watch_tells_without_being_asked() -> None:
    talk = Talk()
    assert talk.hear(zk.event("/a")) == []
    assert (talk.last.step, talk.last.answers) == ("event", ())
    talk.hear(zk.answer(99))
    assert talk.last.step == UNKNOWN


@pytest.mark.parametrize(
    "data",
    [b"ruok" + bytes(60), b"GET / HTTP/1.1\r\nHost: x\r\nAccept: every single thing\r\n\r\n"],
)
def test_what_is_no_client_is_opaque(data: bytes) -> None:
    assert isinstance(ZooKeeper().session(1, limit=1 << 12).feed(TO, data), Opaque)


def test_a_path_is_awaited_and_an_impossible_one_is_none() -> None:
    """A path may come in pieces; one that would be longer than its frame is not waited for."""
    talk = Talk()
    data = zk.request(3, Op.CREATE, "/transactional/key.worker", zk.create_body(b"1"))
    assert talk.session.feed(TO, data[:20]) == Need(16 + len("/transactional/key.worker"))
    assert talk.session.owner() is None
    assert isinstance(talk.session.feed(TO, data), KeeperFrame)
    assert talk.session.owner() == "key.worker"
    talk = Talk()
    fed = talk.session.feed(TO, data[:12] + struct.pack(">i", 1 << 20) + data[16:])
    assert isinstance(fed, KeeperFrame)
    assert "path" not in fed.facts


def test_rules_choose_by_path_where_there_is_one() -> None:
    """And by record where data may carry one; a multi too."""
    Rule("r", Action.HOLD, Op.SET_DATA, topic="/a", record="k0-1")
    Rule("r", Action.HOLD, Op.MULTI, topic="/a")
    for op, fields in (
        (Op.EXISTS, {"record": "k0-1"}),
        (Op.CLOSE, {"topic": "/a"}),
        (Op.EVENT, {"topic": "/a"}),
    ):
        with pytest.raises(RuleError):
            Rule("r", Action.HOLD, op, **fields)  # type: ignore[arg-type]  # they are texts
    assert {op for op, way in STEPS if STEPS[op, way].durable} >= {
        "setData",
        "multi",
        "create",
        "delete",
    }
    assert not STEPS["getData", TO].durable
