"""What is found on a machine, and what a node's word about a queue means, without a node."""

from __future__ import annotations

import itertools
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from lostack_rabbitmq import install
from lostack_rabbitmq.broker import REPLAY, RabbitServer
from lostack_rabbitmq.install import Installed, look, why_not
from lostack_rabbitmq.raft import Log

from harness.model.failures import EnvironmentFailure
from harness.model.places import Removal, Waiting
from harness.model.scenario import Role
from harness.run.queue_broker import Count
from tests.rabbitmq_logs import PROCESS, command, enqueue, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a server of the right version, and an Erlang of the right release."""
    (tmp_path / "server" / "plugins" / "rabbit-3.10.25" / "ebin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    erlang(tmp_path, "25")
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path / "server"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def erlang(folder: Path, release: str) -> None:
    """Make a program that says that it is an Erlang of this release."""
    program = folder / "bin" / "erl"
    program.write_text(f"#!/bin/sh\necho {release}\n")
    program.chmod(0o755)
    install._look.cache_clear()


def test_a_server_of_this_machine_is_found(home: Path) -> None:
    assert look() == Installed(home / "server", "3.10.25", str(home / "bin" / "erl"), "25")
    assert why_not() is None


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda home: shutil.rmtree(home / "server"), "RabbitMQ is not installed here"),
        (lambda home: (home / "bin" / "erl").unlink(), "erl, which starts it, is not on the PATH"),
        (lambda home: erlang(home, "26"), "needs Erlang/OTP 23 to 25, and"),
        (lambda home: erlang(home, "no release"), "needs Erlang/OTP 23 to 25, and"),
        (
            lambda home: (home / "server" / "plugins" / "rabbit-3.10.25").rename(
                home / "server" / "plugins" / "rabbit-4.1.0"
            ),
            "reads the files of RabbitMQ 3.10, and here is 4.1.0",
        ),
    ],
)
def test_what_is_missing_is_said(home: Path, harm: Any, said: str) -> None:
    """In one line, before anything is started."""
    harm(home)
    found = look()
    assert isinstance(found, str)
    assert said in found
    assert "\n" not in found


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RabbitServer]:
    """A node that is not started, whose log has three messages."""
    made = RabbitServer(Installed(tmp_path, "3.10.8", "erl", "25"), tmp_path, {"heartbeat": "5"})
    log, old = Log("q"), Log("q")
    old.add(2, 1, enqueue(1, b"one"))
    for index, number in ((2, 1), (3, 2), (4, 2), (7, 3)):
        log.add(index, 1, enqueue(number, b"one"))
    monkeypatch.setattr(made, "_logs", lambda: {"NEW": log, "OLD": old, "X": Log("x")})
    yield made
    made.close()


def test_what_waits_is_the_queue_s_own_word(
    server: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest was removed, or was never a message of its own. What a queue had before the node
    began it anew is gone.
    """
    monkeypatch.setattr(server, "ask", says(("queue", b"NEW", ([7], [3]))))
    assert server.count("q") == Count(1, 1)
    told = [(each.place, each.waiting, each.removed) for each in server.messages("q")]
    assert told == [
        ("OLD:2", None, Removal.PURGE),
        ("NEW:2", None, Removal.ACK),
        ("NEW:3", Waiting.READY, None),
        ("NEW:4", None, Removal.DUPLICATE),
        ("NEW:7", Waiting.READY, None),
    ]
    assert not server.messages("other")


def test_over_stomp_a_queue_has_two_names(server: RabbitServer) -> None:
    """A queue that is there, and one that is made if it is not."""
    assert (server.queue("q"), server.speaking("stomp").queue("q")) == ("q", "/queue/q")
    assert server.speaking("stomp").address(Role.CONSUMER) != server.address(Role.CONSUMER)
    assert len({route.upstream_port for route in server.routes()}) == 2
    for name in ("/queue/q", "/amq/queue/q"):
        assert server.dead_letters(name) == "q.dead-letters"


def died(queue: bytes, reason: bytes) -> Any:
    """Return the entry of a dead letter: the node has made its headers."""
    headers = [
        (b"lostack-attempt", "longstr", b"p-1.2"),
        (b"x-first-death-queue", "longstr", queue),
        (b"x-first-death-reason", "longstr", reason),
    ]
    content = ("content", 60, ("P_basic", "undefined", "undefined", headers), "none", "none")
    exchange = ("resource", b"/", "exchange", b"")
    said = ("basic_message", exchange, [b"q"], (*content, [b"one"]), b"id", "true")
    return command("enqueue", PROCESS, 1, said)


def test_a_dead_letter_is_where_its_queue_has_moved_it(
    server: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each that the node says it has dropped; without one it is gone, for its reason. What
    was removed besides was acknowledged. Another queue's is none of its.
    """
    logs = {name: Log(queue) for name, queue in (("Q", "q"), ("D", "q.dead-letters"))}
    for index in range(2, 7):
        logs["Q"].add(index, 1, enqueue(index, b"one"))
    logs["Q"].add(7, 1, command("requeue", (b"tag", PROCESS), 0, 3, 3, message(b"one")))
    logs["D"].add(2, 1, died(b"other", b"rejected"))
    logs["D"].add(3, 1, died(b"q", b"delivery_limit"))
    monkeypatch.setattr(server, "_logs", lambda: logs)
    dropped = [("delivery_limit", 7), ("rejected", 5), ("purge", 6)]
    monkeypatch.setattr(server, "ask", says(("queue", b"Q", ([2], [])), dropped))
    told = [(each.waiting, each.moved, each.why, each.removed) for each in server.messages("q")]
    assert told == [
        (Waiting.READY, None, None, None),
        (None, "D:3", Removal.LIMIT, None),
        (None, None, None, Removal.ACK),
        (None, None, None, Removal.REJECT),
        (None, None, None, Removal.PURGE),
    ]
    assert server.dead_letters("q") == "q.dead-letters"
    logs["D"].queue = "another"
    assert server.dead_letters("q") == "another"
    assert server.dead_letters("none") == "none.dead-letters"
    monkeypatch.setattr(server, "ask", says(("queue", b"Q", ([2], [])), ("failed", b"why")))
    with pytest.raises(OSError, match="q: the node says"):
        server.messages("q")


def says(holds: Any, dropped: object = None) -> Any:
    """Return what a node answers: what a queue holds, and what was dropped of it."""
    return lambda queue, *_: (dropped or []) if queue.startswith(REPLAY) else holds


def test_a_classic_queue_is_not_taken_for_an_empty_one(
    server: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages could not be read."""
    monkeypatch.setattr(server, "ask", lambda _: ("other", "rabbit_classic_queue"))
    with pytest.raises(EnvironmentFailure, match="declare it with x-queue-type: quorum"):
        server.count("q")
    monkeypatch.setattr(server, "ask", lambda _: ("failed", b"{timeout}"))
    with pytest.raises(OSError, match="the node says"):
        server.count("q")
    monkeypatch.setattr(server, "ask", lambda _: "none")
    assert server.count("q") == Count()


def test_the_node_has_all_of_its_files_in_its_folder(server: RabbitServer) -> None:
    """No setting of this machine's own RabbitMQ is used, and no epmd."""
    server.data.mkdir()
    command = server.argv()
    assert ("-start_epmd", "false") in itertools.pairwise(command)
    assert "heartbeat = 5\n" in (server.data / "rabbitmq.conf").read_text()
    assert (server.data / "advanced.config").read_text() == "[].\n"
    own = {"ERL_LIBS", "RABBITMQ_HOME", "RABBITMQ_PLUGINS_DIR"}
    paths = {k: v for k, v in server.environment().items() if os.sep in v and k not in own}
    assert len(paths) > 10
    assert all(path.startswith(str(server.data)) for path in paths.values())


def test_settings_that_rabbitmq_conf_cannot_have(server: RabbitServer) -> None:
    """They stand in another file; a cell's own come before a user's."""
    server.data.mkdir()
    server._up.told = {"heartbeat": "7", "advanced.ra.wal_sync_method": "none"}
    server.argv()
    assert (server.data / "advanced.config").read_text() == "[{ra, [{wal_sync_method, none}]}].\n"
    said = (server.data / "rabbitmq.conf").read_text()
    assert "heartbeat = 7\n" in said
    assert "advanced" not in said
