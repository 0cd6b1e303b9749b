"""Real servers whose power goes: what they keep of what they have acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.runtimes.power.tree import Names
from tests.power.servers import NATS, RECORDS, VALKEY, Nats, Redis, Server, damaged, power_cut

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.strace
DAMAGED = "a bit flipped in record 12"


def valkey(setting: str) -> Server:
    """Return Valkey with this ``appendfsync``."""
    return Redis("Valkey", str(VALKEY.ensure(print)), setting)


def nats(setting: str) -> Server:
    """Return NATS with this ``sync_interval``."""
    return Nats("NATS", str(NATS.ensure(print)), setting)


@pytest.mark.parametrize("server", [valkey, nats])
def test_who_flushes_always_keeps_all_that_it_acknowledged(server: object, tmp_path: Path) -> None:
    assert callable(server)
    kept = power_cut(server("always"), tmp_path)
    assert kept.left == RECORDS
    assert kept.cut.flushes >= RECORDS


@pytest.mark.parametrize(("server", "setting"), [(valkey, "no"), (nats, "")])
def test_who_leaves_it_to_the_kernel_loses_all(
    server: object, setting: str, tmp_path: Path
) -> None:
    """The default of NATS: no file was flushed when it acknowledged."""
    assert callable(server)
    kept = power_cut(server(setting), tmp_path)
    assert kept.left == 0
    assert kept.cut.files
    assert kept.cut.flushes < RECORDS


def test_each_second_loses_what_the_last_flush_does_not_cover(tmp_path: Path) -> None:
    kept = power_cut(valkey("everysec"), tmp_path)
    [stored] = [content for path, content in kept.cut.kept.items() if path.endswith(".incr.aof")]
    assert stored is not None
    assert kept.left == stored.count(b"XADD")


def test_by_posix_even_a_flushed_file_is_gone_without_its_folder(tmp_path: Path) -> None:
    kept = power_cut(valkey("always"), tmp_path, Names.POSIX)
    assert kept.left == 0
    assert {each.after for each in kept.cut.files} == {None}


def test_one_bit_takes_all_records_behind_it_from_nats(tmp_path: Path) -> None:
    """At most twelve of 24 are left, and its log has no word of it (#7549). Once, on a busy
    machine, it was one: why is not known.
    """
    found = damaged(nats("always"), tmp_path, DAMAGED)
    assert found.left is not None
    assert found.left <= 12
    assert found.read == tuple(b"record %d" % number for number in range(found.left))
    assert found.warned == ""
