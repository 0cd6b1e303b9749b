"""The table of clients: its programs are small and know nothing of lostack, its locks have
checksums, its shards leave nothing out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import UsageError
from harness.provision.jars import read_jar_set
from harness.scoreboard.table import DEFAULT, PROGRAMS, chosen, read_clients, read_shard, rows_of

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = read_clients()
ROWS = tuple(rows_of(CLIENTS))
MOST_LINES = 60
ENDINGS = {".py", ".java", ".go", ".js", ".mjs", ".rs"}
SOURCES = [file for file in sorted(PROGRAMS.rglob("*")) if file.suffix in ENDINGS]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_a_program_is_small_and_knows_nothing_of_lostack(file: Path) -> None:
    """A program as anybody would write it: what it shows is true of its client."""
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert "lostack" not in text.lower()
    assert "failpoint" not in text


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_lock_has_a_checksum_for_each_package_and_no_address(client: object) -> None:
    """The programs are built from exactly these files; mirrors are the machine's own business."""
    assert client in CLIENTS
    mine = next(each for each in CLIENTS if each is client)
    for version in mine.versions:
        if mine.kind == "java":
            assert read_jar_set(mine.jars[version]).sums
            continue
        locks = [*(mine.folder / "locks").glob(f"{version}*"), *mine.folder.glob("locks/*/*")]
        text = "".join(file.read_text(encoding="utf-8") for file in locks if file.is_file())
        assert re.search(r"sha256:|sha512-|h1:|checksum = ", text), version
        addresses = set(re.findall(r"https?://[^\s\"']+", text))
        assert {each for each in addresses if "crates.io-index" not in each} == set()
    assert set(mine.needs) <= set(mine.versions)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_what_a_program_sets_stands_in_its_source(client: object) -> None:
    """A page that tells people to set what no program has set would be an opinion."""
    mine = next(each for each in CLIENTS if each is client)
    text = "".join(
        file.read_text(encoding="utf-8") for file in SOURCES if mine.folder in file.parents
    )
    rows = [row for row in ROWS if row.client is client and not row.missing]
    assert {f"{row.role}/{row.program_mode}" for row in rows if row.mode != DEFAULT} == {*mine.sets}
    for told in mine.sets.values():
        named = re.split(r",|;", told)
        for words in named:
            first = re.match(r"[\w.]+", words.strip())
            if first and first[0] not in {"a", "it"}:
                assert first[0].rsplit(".", maxsplit=1)[-1] in text, told


def test_each_row_is_in_one_shard() -> None:
    """And no shard has only one kind of program: these take unequally long."""
    shards = [chosen(ROWS, (), (number, 4)) for number in range(1, 5)]
    assert Counter(row.id for shard in shards for row in shard) == Counter(row.id for row in ROWS)
    assert len({row.id for row in ROWS}) == len(ROWS)
    for shard in shards:
        assert len({(row.role, row.mode) for row in shard}) > 1


def test_a_choice_is_by_name_or_glob() -> None:
    meant = chosen(ROWS, ["kafkajs", "*/processor/exactly-once"], (1, 1))
    assert {row.client.name for row in meant if row.mode != "exactly-once"} == {"kafkajs"}
    assert {"java", "kafkajs"} <= {row.client.name for row in meant}


def test_a_choice_of_nothing_is_refused() -> None:
    """A board of no rows would say that all is well."""
    with pytest.raises(UsageError, match="no row of the scoreboard matches 'kafak'"):
        chosen(ROWS, ["kafak"], (1, 1))


@pytest.mark.parametrize("text", ["5/4", "0/4", "2", "2/", "a/b", "-1/4", "1/0"])
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="as 2/4"):
        read_shard(text)
