"""A data folder that was formatted once is written again with ids of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.systems.kafka.formatted import keep_formatted, new_id, write_formatted

if TYPE_CHECKING:
    from pathlib import Path

META = (
    "#\n#Tue Nov 24 "
    "2026\nnode.id=1\ndirectory.id=E34jhor420wCg_sPSu9W1A\nversion=1\ncluster.id=65fCncI3Sz2KyHLHId4HmQ\n"
)
SINCE_4_4 = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
"""Where Kafka 4.4 puts the features of a new cluster."""


def said(data: Path) -> dict[str, str]:
    """Return what a folder says of itself."""
    return dict(
        line.split("=", 1)
        for line in (data / "meta.properties").read_text().splitlines()
        if not line.startswith("#")
    )


def formatted(folder: Path) -> Path:
    """Return a folder as Kafka's tool leaves it."""
    folder.mkdir()
    (folder / "meta.properties").write_text(META)
    (folder / "bootstrap.checkpoint").write_bytes(b"features\0")
    (folder / ".lock").touch()
    (folder / SINCE_4_4).parent.mkdir()
    (folder / SINCE_4_4).write_bytes(b"newer features\0")
    return folder


def test_a_folder_is_written_again_with_ids_of_its_own(tmp_path: Path) -> None:
    """Its cluster's and its node's as asked for, its own another each time; all else as the tool
    has written it.
    """
    store = tmp_path / "store" / "kafka-4.3.0-broker"
    assert not write_formatted(store, {"node.id": "2"}, tmp_path / "none", "cluster")
    assert not (tmp_path / "none").exists()
    keep_formatted(store, formatted(tmp_path / "data"))
    found = []
    for name in ("one", "two"):
        assert write_formatted(store, {"node.id": "2"}, tmp_path / name, "cluster")
        found.append(said(tmp_path / name))
        assert (tmp_path / name / "bootstrap.checkpoint").read_bytes() == b"features\0"
        assert (tmp_path / name / SINCE_4_4).read_bytes() == b"newer features\0"
        assert not (tmp_path / name / ".lock").exists()
    assert all(
        (each["cluster.id"], each["node.id"], each["version"]) == ("cluster", "2", "1")
        for each in found
    )
    assert len({each["directory.id"] for each in found} | {"E34jhor420wCg_sPSu9W1A"}) == 3


def test_who_keeps_one_later_changes_nothing(tmp_path: Path) -> None:
    """Two runs may format at once: the first one's is kept, and nothing is left beside it."""
    store = tmp_path / "store" / "kafka-4.3.0-broker"
    keep_formatted(store, formatted(tmp_path / "data"))
    other = formatted(tmp_path / "other")
    (other / "bootstrap.checkpoint").write_bytes(b"others")
    keep_formatted(store, other)
    assert (store / "bootstrap.checkpoint").read_bytes() == b"features\0"
    assert [each.name for each in store.parent.iterdir()] == [store.name]


def test_a_copy_of_a_read_only_cache_can_be_written(tmp_path: Path) -> None:
    """Its folders and files have the modes of new ones, and so has what is kept."""
    new_folder, new_file = tmp_path / "new", tmp_path / "new-file"
    new_folder.mkdir()
    new_file.touch()
    store = tmp_path / "store" / "kafka-4.3.0-broker"
    data = formatted(tmp_path / "data")
    for each in (data, *data.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)
    keep_formatted(store, data)

    def modes(folder: Path) -> set[tuple[bool, int]]:
        return {(each.is_dir(), each.stat().st_mode) for each in (folder, *folder.rglob("*"))}

    new = {(True, new_folder.stat().st_mode), (False, new_file.stat().st_mode)}
    assert modes(store) == new
    for each in (store, *store.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
    assert write_formatted(store, {"node.id": "2"}, tmp_path / "copy", "cluster")
    assert modes(tmp_path / "copy") == new


def test_an_id_is_never_taken_for_an_option() -> None:
    """It has 22 characters, and none of them is a dash in front."""
    found = [new_id() for _ in range(2000)]
    assert {len(each) for each in found} == {22}
    assert not any(each.startswith("-") for each in found)
    assert len(set(found)) == len(found)
