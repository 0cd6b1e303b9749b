"""The adapter of JMS: what it tells the library, and what it makes of lost connections, against a
JVM that is played.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.record import Record
from harness.scenarios.artemis import BY_ID, IN_DOUBT, LISTENED
from harness.scenarios.jms import TWO_PHASES
from harness.stages.clients import AMQP, OPENWIRE, jms
from harness.stages.clients.bridge import COMMAND, coded
from harness.stages.clients.interface import ClientError
from harness.stages.clients.queues import DUPLICATE_ID
from harness.stages.consumer_settings import ConsumerSettings, SavePosition
from harness.stages.outbox import Outbox
from harness.stages.pushing import Acknowledge, AcknowledgeSettings
from harness.stages.settings import QUEUE_AT_LEAST_ONCE, QUEUE_AT_MOST_ONCE, Settings
from harness.stages.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAYED = """#!{python}
import json, sys
answers = json.load(open({answers!r}))
number = 0
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    with open({calls!r}, "a") as calls:
        calls.write(json.dumps(words) + "\\n")
    waiting = answers.get(words[0], [])
    if waiting:
        print(waiting.pop(0), flush=True)
    elif words[0] in ("open", "session", "xa-session", "producer", "consumer"):
        number += 1
        print(f"ok\\t{{number}}", flush=True)
    else:
        print("ok", flush=True)
"""
LOST = f"error\tJMSException\t{coded(b'the connection is lost: it was cut')}"


class Played:
    """A JVM that is played: what it says to each call, and what it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._answers, self._calls = folder / "answers.json", folder / "calls.jsonl"
        program = folder / "java"
        program.write_text(
            PLAYED.format(python=sys.executable, answers=str(self._answers), calls=str(self._calls))
        )
        program.chmod(0o755)
        monkeypatch.setenv(COMMAND, json.dumps([str(program)]))
        self._outbox = folder / "outbox.sqlite"
        Outbox.create(self._outbox, ())
        self.says({})

    def says(self, answers: dict[str, list[str]]) -> None:
        """Let it say this to the first calls of a kind; to all else it says yes."""
        self._answers.write_text(json.dumps(answers))

    def end(self) -> None:
        """End it, as it ends when its program is gone."""
        if jms._bridge.cache_info().currsize:
            jms._bridge()._jvm.communicate(timeout=10)
            jms._bridge.cache_clear()

    def asked(self, *verbs: str) -> list[list[str]]:
        """Return what it was asked, of these kinds."""
        if not self._calls.exists():
            return []
        return [
            words
            for words in map(json.loads, self._calls.read_text().splitlines())
            if words[0] in verbs
        ]

    def options(self) -> dict[str, str]:
        """Return what the library was told in its address."""
        address = self.asked("open")[0][2]
        return dict(
            pair.split("=")
            for part in address.split("?")[1:]
            for pair in part.rstrip(")").split("&")
        )

    def stage(self, settings: Settings) -> Stage:
        """Return a stage with these settings."""
        return Stage(
            cell="c",
            key="k",
            name="consumer",
            incarnation=2,
            bootstrap="127.0.0.1:1",
            topic_in="k.in",
            topic_out="",
            topic_cursor="",
            group="",
            outbox=str(self._outbox),
            sink="",
            history="",
            settings=settings,
            client=OPENWIRE,
        )


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Return it."""
    found = Played(tmp_path, monkeypatch)
    yield found
    found.end()


def consumer(played: Played, **more: Any) -> jms.JmsConsumer:
    """Return a consumer that has subscribed."""
    settings = replace(
        QUEUE_AT_LEAST_ONCE,
        consumer=ConsumerSettings(**{"position": SavePosition.AFTER_RECORDING} | more),
    )
    found = jms.make_consumer(played.stage(settings))
    found.subscribe("k.in")
    return found


def given(token: str, value: bytes, *, again: bool = False) -> str:
    """Return how a message is handed over."""
    return "\t".join(("ok", token, f"ID:{token}", str(again).lower(), "1", coded(value)))


def test_a_message_is_handed_over_and_acknowledged(played: Played) -> None:
    """By its token, as many at a time as the settings say, and the library waits for the answer."""
    played.says({"receive": ["ok", given("7", b"a", again=True)]})
    reader = consumer(played, unit=3)
    assert reader.receive(0.5) is None
    message = reader.receive(0.5)
    assert message is not None
    assert (message.name, message.value, message.redelivered) == ("ID:7", b"a", True)
    reader.acknowledge(message)
    assert played.asked("acknowledge") == [["acknowledge", "7"]]
    assert played.asked("session") == [["session", "1", "4"]]
    told = played.options()
    assert (told["jms.prefetchPolicy.queuePrefetch"], told["jms.sendAcksAsync"]) == ("3", "false")
    assert (told["wireFormat.tightEncodingEnabled"], told["wireFormat.cacheEnabled"]) == (
        "false",
        "false",
    )


@pytest.mark.parametrize(
    ("mode", "asks"), [(Acknowledge.CLIENT, "acknowledge"), (Acknowledge.TRANSACTED, "commit")]
)
def test_each_mode_has_its_word(played: Played, mode: Acknowledge, asks: str) -> None:
    """A transaction is committed; all else is acknowledged."""
    played.says({"receive": [given("7", b"a")]})
    reader = consumer(played, acknowledging=AcknowledgeSettings(mode=mode))
    message = reader.receive(0.5)
    assert message is not None
    reader.acknowledge(message)
    assert [words[0] for words in played.asked("acknowledge", "commit")] == [asks]


def test_what_the_library_acknowledges_needs_no_word(played: Played) -> None:
    """And it may be told not to wait for the answer."""
    played.says({"receive": [given("7", b"a")]})
    reader = consumer(
        played, position=SavePosition.AUTO, acknowledging=AcknowledgeSettings(blocking=False)
    )
    message = reader.receive(0.5)
    assert message is not None
    reader.acknowledge(message)
    assert played.asked("acknowledge", "commit") == []
    assert played.options()["jms.sendAcksAsync"] == "true"


def test_a_lost_connection_is_made_again_by_the_next_call(played: Played) -> None:
    """By another name; what it had brought is not acknowledged over the new one."""
    played.says({"receive": [given("7", b"a"), LOST, given("8", b"a", again=True)]})
    reader = consumer(played)
    old = reader.receive(0.5)
    assert reader.receive(0.5) is None
    new = reader.receive(0.5)
    assert [words[3] for words in played.asked("open")] == [
        played.asked("open")[0][3],
        played.asked("open")[1][3],
    ]
    assert len({words[3] for words in played.asked("open")}) == 2
    assert old is not None
    assert new is not None
    with pytest.raises(ClientError, match="the connection that brought the message is gone"):
        reader.acknowledge(old)
    reader.acknowledge(new)
    assert played.asked("acknowledge") == [["acknowledge", "8"]]


def test_an_acknowledgement_that_is_refused_is_told(played: Played) -> None:
    """And its connection is left: what it brought comes again."""
    played.says({"receive": [given("7", b"a")], "acknowledge": [LOST]})
    reader = consumer(played)
    message = reader.receive(0.5)
    assert message is not None
    with pytest.raises(ClientError, match="JMSException: the connection is lost"):
        reader.acknowledge(message)
    assert len(played.asked("leave")) == 1


def test_what_is_refused_is_asked_for_again(played: Played) -> None:
    played.says({"receive": [given("7", b"a")]})
    reader = consumer(played)
    message = reader.receive(0.5)
    assert message is not None
    reader.refuse(message, for_good=False)
    assert played.asked("recover", "rollback") == [["recover", "2"]]
    with pytest.raises(NotImplementedError):
        reader.refuse(message, for_good=True)


def test_a_send_is_answered_or_not(played: Played) -> None:
    """As the settings say; one whose connection is lost goes over another."""
    played.says({"send": [LOST]})
    sender = jms.make_producer(played.stage(QUEUE_AT_LEAST_ONCE), transactional_id="")
    with pytest.raises(ClientError, match="JMSException"):
        sender.send("k.in", b"a", None, [("lostack-attempt", b"p-1.0.1")])
    sender.send("k.in", b"a", None, [("lostack-attempt", b"p-1.0.2")]).wait(1)
    assert [words[3:] for words in played.asked("send")] == [
        [coded(b"a"), "lostack-attempt", coded(b"p-1.0.1")],
        [coded(b"a"), "lostack-attempt", coded(b"p-1.0.2")],
    ]
    assert len(played.asked("open")) == 2
    assert played.options()["jms.alwaysSyncSend"] == "true"
    sender.close(1)
    assert len(played.asked("close")) == 1


@pytest.mark.parametrize(
    ("settings", "there"),
    [(BY_ID, True), (QUEUE_AT_LEAST_ONCE, False), (IN_DOUBT, True), (LISTENED, False)],
)
def test_a_message_carries_its_record_s_id_where_the_settings_say_so(
    played: Played, settings: Settings, *, there: bool
) -> None:
    value = Record("k-1", "k", 1).encode("k")
    jms.make_producer(played.stage(settings), transactional_id="").send("k.in", value, None, ())
    [words] = played.asked("send", "send-unheard")
    assert words[3:] == [coded(value), *((DUPLICATE_ID, coded(b"k-1")) if there else ())]


def test_who_waits_for_nothing_says_so(played: Played) -> None:
    jms.make_producer(played.stage(QUEUE_AT_MOST_ONCE), transactional_id="").send(
        "k.in", b"a", None, ()
    )
    assert played.options()["jms.useAsyncSend"] == "true"
    retries = replace(
        QUEUE_AT_LEAST_ONCE, producer=replace(QUEUE_AT_LEAST_ONCE.producer, retries=True)
    )
    jms.make_producer(played.stage(retries), transactional_id="").send("k.in", b"a", None, ())
    assert played.asked("open")[1][2].startswith("failover:(tcp://127.0.0.1:1?wireFormat.")


def test_over_amqp_at_most_once_is_settled_when_it_is_sent(played: Played) -> None:
    """On both sides; else the broker settles, and is waited for."""
    for number, (settings, early) in enumerate(
        ((QUEUE_AT_MOST_ONCE, "true"), (QUEUE_AT_LEAST_ONCE, "false"))
    ):
        stage = replace(played.stage(settings), client=AMQP)
        jms.make_producer(stage, transactional_id="").send("k.in", b"a", None, ())
        _, factory, address, _ = played.asked("open")[number]
        told = dict(pair.split("=") for pair in address.partition("?")[2].split("&"))
        assert (factory, address.partition("?")[0]) == (
            "org.apache.qpid.jms.JmsConnectionFactory",
            "amqp://127.0.0.1:1",
        )
        assert {
            told[f"jms.presettlePolicy.presettle{who}"] for who in ("Producers", "Consumers")
        } == {early}
        assert told.get("jms.forceSyncSend", "false") != early


def test_over_amqp_who_waits_for_the_commit_alone_waits_for_no_message(played: Played) -> None:
    """Else the library tells of a refusal itself, and no commit that forgets it is
    ever asked for.
    """
    jms.make_producer(replace(played.stage(LISTENED), client=AMQP), transactional_id="").send(
        "k.in", b"a", None, ()
    )
    assert "jms.forceSyncSend=false" in played.asked("open")[0][2]
    assert len(played.asked("send-unheard")) == 1


def test_what_an_earlier_program_has_left_prepared_is_ended_as_decided(played: Played) -> None:
    """Committed where the cursor is past it, else rolled back; what is somebody else's is left
    alone.
    """
    played.says(
        {"xa-recover": ["ok\tk.consumer.3.1-1\tk.consumer.5.1-2\tk.other.1.1-1\tx.consumer.1.1-1"]}
    )
    stage = played.stage(TWO_PHASES)
    Outbox(Path(stage.outbox)).save_cursor(5)
    sender = jms.make_producer(stage, transactional_id="")
    sender.init_transactions()
    assert [(words[0], words[2]) for words in played.asked("xa-commit", "xa-rollback")] == [
        ("xa-commit", "k.consumer.3.1-1"),
        ("xa-rollback", "k.consumer.5.1-2"),
    ]
    sender.begin()
    assert played.asked("xa-start")[0][2] == "k.consumer.5.2-1"


def test_two_phases_are_two_words_and_nothing_is_taken_back(played: Played) -> None:
    """Whether what failed was decided, looks who comes next; who is not to look, does not."""
    played.says({"xa-commit": [LOST]})
    stage = played.stage(replace(TWO_PHASES, producer=replace(TWO_PHASES.producer, recovers=False)))
    sender = jms.make_producer(stage, transactional_id="")
    sender.init_transactions()
    assert played.asked("xa-recover") == []
    sender.begin()
    sender.send("k.in", b"a", None, ())
    assert isinstance(sender, jms.TwoPhaseProducer)
    sender.prepare()
    with pytest.raises(ClientError):
        sender.commit()
    with pytest.raises(ClientError, match="the next program ends what was prepared"):
        sender.abort()
    names = {
        words[2] for words in played.asked("xa-start", "xa-prepare", "xa-commit", "xa-rollback")
    }
    assert [
        words[0]
        for words in played.asked("xa-start", "send", "xa-prepare", "xa-commit", "xa-rollback")
    ] == [
        "xa-start",
        "send",
        "xa-prepare",
        "xa-commit",
    ]
    assert len(names) == 1
