"""The class-data archive of a worker: what one writes down is parsed before the next one starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lostack_connect import archive
from lostack_connect.archive import LoadedClasses

from harness.provision.java import Java

if TYPE_CHECKING:
    import pytest

DUMPS = """#!/bin/sh
for word; do
  case $word in
    -XX:SharedClassListFile=*) list=${word#*=} ;;
    -XX:SharedArchiveFile=*) to=${word#*=} ;;
  esac
done
cp "$list" "$to"
"""
FAILS = """#!/bin/sh
echo starting >&2
echo class list format error >&2
exit 1
"""


def classes(folder: Path, java: str, written: str = "classes.lst") -> LoadedClasses:
    """Return those of a worker whose Java is a script."""
    path = folder / "java"
    path.write_text(java)
    path.chmod(0o755)
    jar = folder / "worker.jar"
    if not jar.exists():
        jar.touch()
    return LoadedClasses(Java(path, 17, "17.0.1"), [jar], folder / "cache", folder / written)


def test_the_next_worker_uses_what_one_wrote_down(tmp_path: Path) -> None:
    """But for its last line, which may be cut: with it the JVM refuses the whole list."""
    one = classes(tmp_path, DUMPS)
    assert one.flags(print) == (f"-XX:DumpLoadedClassList={one.written}",)
    one.keep()
    assert one.flags(print) == (f"-XX:DumpLoadedClassList={one.written}",)
    one.written.write_text("java/lang/Object\njava/lang/String\n@lambda-proxy org")
    one.keep()
    told = classes(tmp_path, DUMPS, "other.lst").flags(lambda _: None)
    made = Path(told[0].removeprefix("-XX:SharedArchiveFile="))
    assert made.read_text() == "java/lang/Object\njava/lang/String\n"


def test_a_living_worker_is_looked_at_until_it_loads_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = classes(tmp_path, DUMPS)
    one.look()
    one.written.write_text("java/lang/Object\n")
    one.look()
    one.look()
    assert "Dump" in one.flags(print)[0]
    monkeypatch.setattr(archive, "STEADY_S", 0.0)
    one.written.write_text("java/lang/Object\njava/lang/String\n")
    one.look()
    assert "Dump" in one.flags(print)[0]
    one.look()
    assert "Shared" in one.flags(lambda _: None)[0]


def test_without_an_archive_a_worker_starts_as_well(tmp_path: Path) -> None:
    """Why there is none is told in one line."""
    one, said = classes(tmp_path, FAILS), list[str]()
    one.written.write_text("java/lang/Object\n")
    one.keep()
    assert one.flags(said.append) == ()
    assert "class list format error" in said[-1]
    assert one.flags(said.append) == ()
