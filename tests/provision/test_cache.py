"""Where the cache lies: the user's, a chosen one, one beside a read-only one, a temporary one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness import doctor
from harness.model.failures import EnvironmentFailure
from harness.provision import cache, platforms
from harness.provision.cache import VARIABLE, cache_root, fill, locked, original
from harness.provision.central import Module
from harness.provision.jars import JarSet, ensure_jars, sha256
from harness.provision.java import Java
from harness.provision.kafka import VERSION

JAVA = Java(Path("java"), 17, "17")


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A filled cache in which nothing can be written, also by root, as on a read-only mount."""
    base = tmp_path / "prefilled"
    (base / "jars" / "set").mkdir(parents=True)
    (base / "jars" / "set" / "a.jar").write_bytes(b"a jar")
    (base / "jars" / ".set.lock").touch()
    (base / "note.json").write_text("{}")
    written = cache._written

    def refuse(root: Path) -> Path:
        if root == base or base in root.parents:
            raise EnvironmentFailure(f"cannot write to the cache {root} (Read-only file system)")
        return written(root)

    monkeypatch.setattr(cache, "_written", refuse)
    monkeypatch.setenv(VARIABLE, str(base))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    return base


def jar_set(base: Path) -> JarSet:
    """Return the set that the cache holds."""
    sums = {"a.jar": sha256(base / "jars" / "set" / "a.jar")}
    return JarSet("set", (Module("org", "a", "1"),), sums)


def test_a_read_only_cache_is_used_where_it_lies(read_only: Path) -> None:
    """Its jars are given by their own paths, and nothing is fetched; locks lie elsewhere."""
    root = cache_root()
    assert root != read_only
    before = sorted(read_only.rglob("*"))

    def fetch(*_: object) -> None:
        raise AssertionError("everything is there")

    found = ensure_jars(jar_set(read_only), cache=root, java=JAVA, say=print, retrieve=fetch)
    assert found == read_only / "jars" / "set"
    (read_only / "jars" / "set" / ".verified.json").unlink()  # written here, as the test is root
    with locked(root / "jars" / "set", print):
        assert sorted(read_only.rglob("*")) == before
    assert (root / "note.json").read_text() == "{}"


def test_what_it_lacks_is_made_beside_it(read_only: Path) -> None:
    """There it is found again; an entry that is made anew takes the place of the cache's own."""
    root = cache_root()
    fill(root / "jars" / "other", lambda part: (part / "b.jar").touch())
    fill(root / "jars" / "set", lambda part: (part / "new.jar").touch())
    assert cache_root() == root
    assert (root / "jars" / "other" / "b.jar").exists()
    assert [file.name for file in (root / "jars" / "set").iterdir()] == ["new.jar"]
    assert [file.name for file in (read_only / "jars" / "set").iterdir()] == ["a.jar"]
    assert original(root / "jars" / "other") == root / "jars" / "other"


def test_what_vanished_from_it_can_be_made_anew(read_only: Path) -> None:
    root = cache_root()
    (read_only / "note.json").unlink()
    assert cache_root() == root
    assert not (root / "note.json").is_symlink()


def test_the_doctor_says_so(read_only: Path) -> None:
    finding = doctor._cache()
    assert finding.ok
    assert finding.detail.startswith(f"{read_only} is read-only: ")
    assert finding.detail.endswith(f"go to {cache_root()}")


def test_the_doctor_looks_for_the_archive_of_the_jars_where_they_lie(read_only: Path) -> None:
    """As a run does: an archive fits only the paths that it was made with."""
    jars = read_only / "jars" / f"kafka-{VERSION}"
    jars.mkdir()
    assert doctor._jar_directory() == jars


def test_an_empty_folder_that_cannot_be_written_is_refused(tmp_path: Path, read_only: Path) -> None:
    """It is no cache: the user meant another one."""
    for file in sorted(read_only.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    with pytest.raises(EnvironmentFailure, match="cannot write to the cache"):
        cache_root()


def test_without_a_home_it_is_a_temporary_folder_of_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a uid without an account; nobody else's folder is taken for it."""
    monkeypatch.delenv(VARIABLE, raising=False)

    def homeless(_: str) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr("platformdirs.user_cache_path", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = cache_root()
    assert root == tmp_path / f"lostack-{os.getuid()}"
    assert root.stat().st_mode & 0o777 == 0o700
    assert cache_root() == root
    root.rmdir()
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentFailure, match="belongs to somebody else: set LOSTACK_CACHE"):
        cache_root()


def test_a_home_that_cannot_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``/`` is, which container engines name for a uid that they do not know."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: tmp_path / "home/.cache/lostack")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert cache_root() == tmp_path / f"lostack-{os.getuid()}"


HOMELESS = """
import getpass, os, sys
from pathlib import Path
from harness.cli.application import main
from harness.provision.cache import cache_root, expanded
from harness.provision.java import candidates
main(["--version"])  # everything is loaded that this user may not be able to read
os.setgroups([]), os.setresgid(54321, 54321, 54321), os.setresuid(54321, 54321, 54321)
os.environ.pop("HOME")
print(expanded("~/x"), cache_root(), list(candidates({})) is not None)
main(["--version"])
print(Path.home(), getpass.getuser(), os.environ["JAVA_TOOL_OPTIONS"])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a uid without an account")
def test_a_uid_without_an_account_has_a_cache() -> None:
    """Really: no entry in the password file, and no HOME; then a command gives it one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        ran = subprocess.run(
            (sys.executable, "-c", HOMELESS),
            env={
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TMPDIR": folder,
                "HOME": "/root",
                "JAVA_TOOL_OPTIONS": "-Dmine=1",
            },
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        own = f"{folder}/lostack-54321"
        options = f"-Dmine=1 -Duser.name=uid-54321 -Duser.home={own}"
        assert ran.stdout.splitlines()[1::2] == [
            f"~/x {own} True",
            f"{own} uid-54321 {options}",
        ], ran.stdout + ran.stderr


def test_musl_is_refused_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, by all that fetches; the doctor says it, too."""

    def unknown(_: str) -> str:
        raise OSError(22, "Invalid argument")

    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(os, "confstr", unknown)
    platforms.glibc.cache_clear()
    try:
        with pytest.raises(EnvironmentFailure, match="needs a Linux with glibc") as caught:
            cache_root()
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "cache").exists()
        assert not doctor._platform().ok
    finally:
        platforms.glibc.cache_clear()


def test_this_machine_will_do() -> None:
    """The tests run nowhere else."""
    assert platforms.why_not_here() is None
