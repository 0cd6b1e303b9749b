"""A PostgreSQL server as a node: killed with all its processes, restarted, and what it had written
is there.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.failures import EnvironmentFailure
from harness.stages.sinks.interface import Copy, Sink, SinkLostError
from harness.stages.sinks.opening import create_sink, open_sink

if TYPE_CHECKING:
    from harness.services.postgres.server import PostgresServer

pytestmark = pytest.mark.postgres
DATABASES = (f"db{number}" for number in itertools.count(1))
AT = Copy(0, 1, 7)


def made(server: PostgresServer) -> str:
    """Return the address of a new database with the sink's tables."""
    name = next(DATABASES)
    server.create(name)
    address = server.address(name)
    create_sink(address)
    return address


@pytest.fixture
def address(server: PostgresServer) -> str:
    """Return the address of a new sink."""
    where = made(server)
    create = open_sink(where)
    create.close()
    return where


def write(sink: Sink, *values: bytes) -> None:
    """Record values, each in a transaction of its own."""
    for value in values:
        sink.begin()
        sink.record(value, "k", AT)
        sink.commit()


def test_killed_it_is_gone_whole_and_comes_back_with_what_it_had_committed(
    server: PostgresServer, address: str
) -> None:
    """Every process of it dies; on the same port and data it knows what was committed, and nothing
    else.
    """
    sink = open_sink(address)
    write(sink, b"kept")
    sink.begin()
    sink.record(b"open", "k", AT)
    processes = [
        server.node.pid,
        *(each.pid for each in psutil.Process(server.node.pid).children(recursive=True)),
    ]
    assert len(processes) > 3
    end = server.kill()
    assert (end.pid, end.signal) == (processes[0], 9)
    assert not any(
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        for pid in processes
    )
    server.check()  # it was meant to
    with pytest.raises(SinkLostError) as lost:
        sink.record(b"lost", "k", AT)
    assert not lost.value.in_doubt
    server.start()
    sink.reconnect()
    assert [value for _, value, _, _ in sink.results()] == [b"kept"]
    sink.close()


def test_a_commit_without_an_answer_is_in_doubt(server: PostgresServer, address: str) -> None:
    sink = open_sink(address)
    sink.begin()
    server.kill()
    with pytest.raises(SinkLostError) as lost:
        sink.commit()
    assert lost.value.in_doubt
    server.start()
    sink.close()


def stop_the_wal_writer(server: PostgresServer) -> None:
    """Let nobody flush, every ten seconds, what a commit has not: else it may do so
    just behind it.
    """
    [writer] = [
        one
        for one in psutil.Process(server.node.pid).children()
        if "walwriter" in " ".join(one.cmdline())
    ]
    writer.suspend()


@pytest.mark.parametrize("durable", [True, False])
def test_only_what_is_durable_when_it_is_answered_outlives_the_server(
    server: PostgresServer, address: str, durable: bool
) -> None:
    """With synchronous_commit=off the answered commits of the last seconds were in the server's
    memory alone.
    """
    before = open_sink(address)
    write(before, b"flushed")
    sink = open_sink(address, durable=durable)
    stop_the_wal_writer(server)
    write(sink, b"a", b"b", b"c")
    assert before.size() == (4, 0)
    server.kill()
    server.start()
    before.reconnect()
    found = [value for _, value, _, _ in before.results()]
    assert found == [b"flushed", b"a", b"b", b"c"] if durable else found == [b"flushed"]
    before.close()


def test_one_that_died_by_itself_is_an_accident(server: PostgresServer) -> None:
    """Whoever did not kill it through its own interface breaks the ground under all cells."""
    server.node.kill()
    with pytest.raises(EnvironmentFailure, match=r"PostgreSQL ended \(signal 9\)"):
        server.check()
    server.start()
    server.check()
