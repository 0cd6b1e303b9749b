"""The proxy from Python, in front of a scripted broker."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.failures import EnvironmentFailure, UsageError
from harness.protocols.kafka.steps import ERRORS, Api
from harness.proxy.asking import FrameSelector, asked_for, rule_of
from harness.proxy.delivered import assert_delivered
from harness.proxy.fault import NeverStruckError
from harness.proxy.proxy import NotReadError, Proxy
from harness.wire.rules import RuleCounts
from tests.wire import kafka_frames as kf
from tests.wire.broker import Client, ScriptedBroker, corr_of, request, response
from tests.wire.test_answers import told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = "shop-1"


def answer(frame: bytes) -> bytes:
    """Answer as a broker that stores everything."""
    api = int.from_bytes(frame[4:6], "big")
    if api == Api.PRODUCE.number:
        return kf.produce_answer(corr_of(frame))
    return response(corr_of(frame), b"answer")


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """One that stores everything."""
    with ScriptedBroker(answer) as made:
        yield made


def upstream(broker: ScriptedBroker) -> str:
    """Return its address."""
    return f"127.0.0.1:{broker.port}"


def connect(proxy: Proxy) -> Client:
    """Connect as a program does."""
    return Client(int(proxy.bootstrap.rpartition(":")[2]))


def order(number: int, corr: int = 1) -> bytes:
    """Return a request with an order."""
    value = json.dumps({"order": number, "item": {"name": "tea"}}).encode()
    return kf.produce(corr, CLIENT, kf.batch([value]))


def test_the_answer_for_one_record_is_lost(broker: ScriptedBroker) -> None:
    """And for no other one; the broker has got it."""
    with (
        Proxy(upstream(broker)) as proxy,
        proxy.lose("Produce", answer=True, record={"order": 17, "item.name": "tea"}) as fault,
    ):
        with connect(proxy) as client:
            client.ask(order(16))
            client.send(order(17, 2))
            assert client.ended()
        assert (fault.counts.seen, fault.counts.matched, fault.fired) == (2, 1, 1)
        assert broker.corrs() == [1, 2]
        [first, second] = proxy.records()
    assert (first.sent, first.acknowledged, second.sent, second.acknowledged) == (1, 1, 1, 0)
    assert second.is_of({"order": 17})
    assert second.is_of(17)
    assert "the answer was lost" in second.steps[-1]


MET: tuple[FrameSelector, ...] = (
    {"record": {"order": 17}},
    {"record": "tea"},
    {"key": "key"},
    {"topic": kf.TOPIC},
    {"client": CLIENT},
    {},
)
NOT_MET: tuple[FrameSelector, ...] = (
    {"record": {"order": 18}},
    {"record": {"order": 17, "item.name": "coffee"}},
    {"record": "coffee"},
    {"key": "another"},
    {"header": {"trace": "1"}},
    {"topic": "another"},
    {"client": "shop-2"},
    {"nth": 2},
)


def test_a_fault_that_never_strikes_fails(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy:
        faults = [proxy.lose("Produce", **named) for named in NOT_MET]
        with connect(proxy) as client:
            client.ask(order(17))
        with pytest.raises(NeverStruckError, match="fault f1 never struck: lose Produce request"):
            proxy.verify()
        for fault in faults:
            with pytest.raises(NeverStruckError, match=f"fault {fault.id} "), fault:
                pass
        proxy.faults.clear()


def test_a_kafka_that_is_not_there_is_named(broker: ScriptedBroker) -> None:
    """A fault that never struck may have had no broker to strike before."""
    broker.close()
    with Proxy(upstream(broker)) as proxy:
        fault = proxy.lose("Produce")
        with connect(proxy) as client:
            assert client.ended()
        with pytest.raises(NeverStruckError, match=r"; 1 found no broker: .*Connect call failed"):
            fault.check()
        proxy.faults.clear()


def test_what_is_named_is_met(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy:
        for named in MET:
            with proxy.lose("Produce", **named), connect(proxy) as client:
                client.send(order(17))
                assert client.ended()
        assert broker.corrs() == []
        [seen] = proxy.records()
    assert (seen.sent, seen.dropped) == (0, len(MET))


def test_a_request_is_refused_as_a_broker_would(broker: ScriptedBroker) -> None:
    """By an error that it may give, and by no other."""
    with Proxy(upstream(broker)) as proxy:
        with pytest.raises(UsageError, match="a Produce is never refused by MEMBER_ID_REQUIRED"):
            proxy.refuse("Produce", "MEMBER_ID_REQUIRED")
        with proxy.refuse("Produce", "NOT_ENOUGH_REPLICAS"), connect(proxy) as client:
            assert told(client.ask(order(1))) == [ERRORS["NOT_ENOUGH_REPLICAS"]]
    assert broker.corrs() == []


def test_a_request_is_held_until_it_is_released(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy, connect(proxy) as client:
        with proxy.hold("Produce") as fault:
            client.send(order(1))
            fault.wait()
            assert broker.corrs() == []
            fault.release()
            client.read()
        with proxy.hold("Produce", answer=True):
            client.send(order(2, 2))
            broker.wait_corrs(1, 2)
            proxy.faults["f2"].wait()
        assert client.read()[4:8] == (2).to_bytes(4, "big")


def test_a_held_request_whose_connection_is_gone_goes_nowhere(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy:
        with proxy.hold("Produce") as fault, connect(proxy) as client:
            client.send(order(1))
            fault.wait()
            assert proxy.control.cut(role="client") == 1
        assert proxy.control.holds() == ()
    assert broker.corrs() == []


def test_a_proxy_that_is_closed_waits_for_nothing(broker: ScriptedBroker) -> None:
    proxy = Proxy(upstream(broker))
    late = proxy.late("Produce")
    proxy.close()
    proxy.close()
    assert not late._letting_go.is_alive()
    with pytest.raises(NeverStruckError):
        proxy.verify()
    assert proxy.records() == []


def test_a_late_request_arrives_behind_the_one_that_took_its_place(
    broker: ScriptedBroker,
) -> None:
    with Proxy(upstream(broker)) as proxy, proxy.late("Produce") as fault:
        with connect(proxy) as client:
            client.send(order(1))
            assert client.ended()
        with connect(proxy) as client:
            client.ask(order(1, 2))
        assert broker.corrs() == [2]
        fault.deliver()
        assert sorted(broker.corrs()) == [1, 2]


def test_nothing_is_answered_any_more(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy, proxy.never("Produce", answer=True):
        with connect(proxy) as client:
            client.send(order(1), request(Api.HEARTBEAT, 2, CLIENT))
            assert client.silent()
        assert broker.corrs() == [1, 2]


def test_what_cannot_be_read_fails(broker: ScriptedBroker) -> None:
    proxy = Proxy(upstream(broker))
    with connect(proxy) as client:
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        client.silent()
    with pytest.raises(NotReadError, match="could not read all that passed"), proxy:
        pass


def test_a_role_has_an_address_of_its_own(broker: ScriptedBroker) -> None:
    """Faults and counts may be of its programs alone."""
    with Proxy(upstream(broker), roles={"shop": 0, "audit": 0}) as proxy:
        assert sorted(proxy.roles) == ["audit", "shop"]
        with pytest.raises(UsageError, match="no role 'x': there are client, shop, audit"):
            proxy.bootstrap_of("x")
        with proxy.lose("Produce", role="audit") as fault:
            for role in ("shop", "audit"):
                with Client(int(proxy.bootstrap_of(role).rpartition(":")[2])) as client:
                    client.send(order(1))
                    assert client.ended() if role == "audit" else client.read()
        assert (fault.counts.seen, fault.fired) == (1, 1)
        with pytest.raises(NeverStruckError, match="lose Produce request of role audit"):
            proxy.lose("Produce", role="audit").check()
        proxy.faults.popitem()
        [seen] = proxy.records(role="shop", client=CLIENT)
        assert (seen.sent, seen.dropped, seen.acknowledged) == (1, 0, 1)
        assert proxy.records(role="shop", client="another") == []


def test_an_answer_that_nobody_can_read_fails(broker: ScriptedBroker) -> None:
    """It may have led a client past the proxy: it went as it came."""
    with Proxy(upstream(broker)) as proxy:
        with connect(proxy) as client:
            assert client.ask(request(Api.METADATA, 5, CLIENT, version=99))[8:] == b"answer"
        with pytest.raises(NotReadError, match="Metadata version 99: the brokers that its answer"):
            proxy.verify()
        proxy.verify = lambda: None  # type: ignore[method-assign] # it was told


def test_a_mechanism_that_cannot_pass_is_named(broker: ScriptedBroker) -> None:
    """Whoever logs in by it is refused by the broker in words that say nothing of the proxy."""
    for mechanism in ("GSSAPI", "AWS_MSK_IAM"):
        proxy = Proxy(upstream(broker))
        with connect(proxy) as client:
            asked = len(mechanism).to_bytes(2, "big") + mechanism.encode()
            client.ask(request(Api.SASL_HANDSHAKE, 1, CLIENT, asked, version=1))
        with pytest.raises(NotReadError, match=f"{mechanism}.* cannot pass: .* the wire's"), proxy:
            pass


def test_a_fault_is_ended_by_several_threads_at_once(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy:
        for number in range(8):
            fault = proxy.hold("Produce")
            with connect(proxy) as client:
                client.send(order(number))
                fault.wait()
                with ThreadPoolExecutor(8) as pool:
                    counts = list(pool.map(lambda _, each=fault: each.end(), range(8)))
                client.read()
            assert set(counts) == {RuleCounts(1, 1, 1)}
        assert proxy.control.holds() == ()


def test_what_was_seen_can_be_asked_for_when_all_is_closed(broker: ScriptedBroker) -> None:
    with Proxy(upstream(broker)) as proxy, connect(proxy) as client:
        client.ask(order(1))
    [seen] = proxy.records()
    assert (seen.sent, seen.acknowledged) == (1, 1)
    proxy.verify()


MISTAKES: tuple[tuple[str, dict[str, object], str], ...] = (
    ("break", {}, "there is no fault 'break': there are lose"),
    ("lose", {"api": "Commit"}, "there is no API 'Commit': there are Produce"),
    ("lose", {"seconds": 1}, "seconds belongs to delay: leave it out of lose"),
    ("delay", {}, "delay needs seconds"),
    ("refuse", {}, "refuse needs error"),
    ("late", {"answer": True}, "only a request can be late"),
    ("delay", {"seconds": 0}, "seconds is a number above 0, not 0"),
    ("delay", {"seconds": float("inf")}, "seconds is a number above 0, not inf"),
    ("delay", {"seconds": float("nan")}, "seconds is a number above 0, not nan"),
    ("lose", {"nth": 0}, "nth counts from 1, not 0"),
    ("lose", {"times": 0}, "times=0 would never strike"),
    ("lose", {"topic": ""}, "topic is empty, and would select all"),
    ("lose", {"client": ""}, "client is empty"),
    ("lose", {"transaction": ""}, "transaction is empty"),
    ("lose", {"topic": 7}, r"Expected `str \| null`, got `int` - at `\$.topic`"),
    ("lose", {"colour": "red"}, "unknown field `colour`"),
    ("lose", {"api": "Heartbeat", "record": "x"}, "cannot be selected by record"),
)


@pytest.mark.parametrize(("do", "more", "said"), MISTAKES)
def test_a_mistake_is_told_in_one_line(do: str, more: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        rule_of("f1", asked_for({"do": do, "api": "Produce", **more}))
    assert "\n" not in str(error.value)


ARGUMENTS: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"upstream": "9092"}, UsageError, "'9092' is not HOST:PORT"),
    ({"located": {"kafka:9092": "here"}}, UsageError, "'here' is not HOST:PORT"),
    ({"security_protocol": "TLS"}, UsageError, "there is no security protocol 'TLS'"),
    ({"ca": "ca.pem"}, UsageError, "belongs to SSL and SASL_SSL: leave it out of PLAINTEXT"),
    ({"username": "ann"}, UsageError, "username and password belong together"),
    ({"username": "ann", "password": ""}, UsageError, "PLAINTEXT has no log-in"),
    ({"roles": {"client": 0}}, UsageError, "'client' is no role"),
    ({"roles": {"shop": -1}}, UsageError, "there is no port -1"),
    (
        {"security_protocol": "SSL", "ca": "/nowhere.pem"},
        EnvironmentFailure,
        "^ca: /nowhere.pem: No such file or directory$",
    ),
    (
        {"security_protocol": "SSL", "ca_out": "/nowhere/ca.pem"},
        EnvironmentFailure,
        "^cannot write /nowhere/ca.pem: No such file or directory$",
    ),
)


@pytest.mark.parametrize(("wrong", "kind", "said"), ARGUMENTS)
def test_an_argument_that_is_wrong_is_told(
    wrong: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said) as error:
        Proxy(**{"upstream": "127.0.0.1:1", **wrong})
    assert "\n" not in str(error.value)


def test_lines_that_are_damaged_are_told(broker: ScriptedBroker, tmp_path: Path) -> None:
    """Nobody may count by them."""
    proxy = Proxy(upstream(broker), history=tmp_path)
    proxy.verify()
    with (tmp_path / "history" / "wire.jsonl").open("ab") as lines:
        lines.write(b"x\n")
    with pytest.raises(NotReadError, match=r"lines are damaged: wire\.jsonl:\d+"), proxy:
        pass


def test_what_arrived_is_compared_with_what_was_sent(broker: ScriptedBroker) -> None:
    assert_delivered([1, 2], [2, 1, 1], at_least="once")
    assert_delivered(["a", "b"], ["b"], at_most="once")
    with pytest.raises(AssertionError, match=r"1 duplicated: 1"):
        assert_delivered([1], [1, 1], exactly="once")
    with pytest.raises(AssertionError, match=r"^1 lost: a$"):
        assert_delivered(["a", "a"], ["a"], at_least="once")
    assert_delivered(["a", "a", {(1, 2): 3}], [b"a", "a", {(1, 2): 3}], exactly="once")
    with pytest.raises(AssertionError, match=r"1 never sent: 3"):
        assert_delivered([1], [1, 3], at_least="once")
    with pytest.raises(UsageError, match="say one of at_least"):
        assert_delivered([1], [1])
    with Proxy(upstream(broker)) as proxy, proxy.lose("Produce"), connect(proxy) as client:
        client.send(order(17))
        assert client.ended()
    with pytest.raises(AssertionError) as error:
        assert_delivered([{"order": 17}, 18], [], at_least="once", proxy=proxy)
    assert "2 lost" in str(error.value)
    assert "and kept from the broker by a fault" in str(error.value)
    assert "18: the proxy has seen no such record" in str(error.value)


def test_nobody_waits_for_a_fault_that_has_ended(broker: ScriptedBroker) -> None:
    """It strikes no more: whoever waits is told at once."""
    with Proxy(upstream(broker)) as proxy, ThreadPoolExecutor() as pool:
        fault = proxy.lose("Produce")
        waiting = pool.submit(fault.wait, 600)
        fault.end()
        with pytest.raises(NeverStruckError, match="never struck"):
            waiting.result(timeout=30)
        proxy.faults.clear()
