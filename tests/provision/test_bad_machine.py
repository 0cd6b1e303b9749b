"""What a machine may lack: each is one clear line that says what helps, and a damaged jar is never
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.central import Module
from harness.provision.jars import (
    LISTS,
    SETTINGS_VARIABLE,
    JarSet,
    check_jars,
    ensure_jars,
    is_stamped,
    ivy_module,
    ivy_retrieve,
    read_jar_set,
    sha256,
    stamp,
)
from harness.provision.java import Java, find_java

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(folder: Path, version: str) -> Path:
    """Make a program that says it is a Java of this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return program


def no_fetch(_cache: Path, _say: object) -> Path:
    """Stand for a network that is not there."""
    raise EnvironmentFailure("no network")


def test_java_17_is_taken_from_java_home(tmp_path: Path) -> None:
    """JAVA_HOME with a Java 17 is used, and nothing is fetched."""
    program = fake_java(tmp_path / "jdk", "17.0.9")
    environ = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}
    assert find_java(tmp_path, print, environ=environ, usual=(), fetch=no_fetch).path == program


def test_java_11_is_not_taken(tmp_path: Path) -> None:
    """A Java 11 on the PATH does not do: the message says so, why none was fetched,
    and what helps.
    """
    fake_java(tmp_path / "jdk", "11.0.2")
    said: list[str] = []
    environ = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}
    with pytest.raises(EnvironmentFailure, match=r"Java 11.*: no network; or install one: "):
        find_java(tmp_path, said.append, environ=environ, usual=(), fetch=no_fetch)
    assert any("Java 11" in line for line in said)


def test_a_chosen_java_11_is_refused(tmp_path: Path) -> None:
    """LOSTACK_JAVA_HOME decides alone, and is told when it is wrong."""
    fake_java(tmp_path / "jdk", "11.0.2")
    with pytest.raises(EnvironmentFailure, match=r"Java 11 .*; Java 17 or 21 is needed"):
        find_java(
            tmp_path,
            print,
            environ={"LOSTACK_JAVA_HOME": str(tmp_path / "jdk")},
            usual=(),
            fetch=no_fetch,
        )


def jar_set(folder: Path) -> JarSet:
    """Make two jars and the list of their sums."""
    folder.mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (folder / name).write_bytes(name.encode() * 100)
    return JarSet(
        "test",
        (Module("org", "module", "1"),),
        {name: sha256(folder / name) for name in ("a.jar", "b.jar")},
    )


def test_every_way_a_jar_can_be_wrong_is_seen(tmp_path: Path) -> None:
    """Missing, damaged and unlisted jars are told apart; a sound folder is sound."""
    folder = tmp_path / "jars"
    jars = jar_set(folder)
    assert not check_jars(folder, jars)
    (folder / "a.jar").write_bytes(b"damaged")
    (folder / "b.jar").unlink()
    (folder / "c.jar").write_bytes(b"stranger")
    check = check_jars(folder, jars)
    assert (check.damaged, check.missing, check.unlisted) == (("a.jar",), ("b.jar",), ("c.jar",))


def test_a_stamp_ends_with_the_file_it_speaks_of(tmp_path: Path) -> None:
    """The cheap check notices a changed size; then sums are compared again."""
    folder = tmp_path / "jars"
    jars = jar_set(folder)
    stamp(folder, jars)
    assert is_stamped(folder, jars)
    (folder / "a.jar").write_bytes(b"damaged")
    assert not is_stamped(folder, jars)


def test_a_missing_jar_that_cannot_be_fetched_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Ivy brings nothing, the message says so and nothing half-made stays in the cache."""
    jars = JarSet("test", (Module("org", "module", "1"),), {"a.jar": "00"})
    java = Java(fake_java(tmp_path / "jdk", "17.0.9"), 17, "17.0.9")
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("harness.provision.jars.ivy_retrieve", lambda *_, **__: None)
    with pytest.raises(EnvironmentFailure) as failure:
        ensure_jars(jars, cache=tmp_path / "cache", java=java, say=print)
    assert "\n" not in str(failure.value)
    assert not list((tmp_path / "cache" / "jars").glob("test/*.jar"))


def test_the_cache_can_be_put_elsewhere(tmp_path: Path) -> None:
    """LOSTACK_CACHE names the folder."""
    assert cache_root({"LOSTACK_CACHE": str(tmp_path / "here")}) == tmp_path / "here"


def test_listed_modules_come_alone_and_another_with_all_it_needs(tmp_path: Path) -> None:
    """Spark's connector must not bring a second Hadoop; of what is not known yet everything must
    come.
    """
    (tmp_path / "several.sha256").write_text("# org a 1\n# org b 2\n00  a-1.jar\n11  b-2.jar\n")
    several = read_jar_set("several", tmp_path)
    assert [module.name for module in several.modules] == ["a", "b"]
    assert ivy_module(several).count('transitive="false"') == 2
    (tmp_path / "one.sha256").write_text("# org a 1\n00  a-1.jar\n11  b-2.jar\n")
    assert 'transitive="false"' not in ivy_module(read_jar_set("one", tmp_path))
    assert 'transitive="false"' not in ivy_module(JarSet("unknown", (Module("org", "a", "1"),), {}))


def test_a_module_may_be_called_otherwise_than_a_jar(tmp_path: Path) -> None:
    """The fourth word of its line says how; among the others it is called as they are."""
    (tmp_path / "one.sha256").write_text("# org a 1 nar\n# org b 2\n00  a-1.jar\n11  b-2.jar\n")
    found = read_jar_set("one", tmp_path)
    assert [module.kind for module in found.modules] == ["nar", "jar"]
    assert ivy_module(found).count('<artifact name="a" type="nar" ext="nar"/>') == 1
    assert ivy_module(found).count("<artifact") == 1


def test_a_module_may_have_several_files(tmp_path: Path) -> None:
    """The fifth word of its line, the classifier, says which; it is in the file's name."""
    (tmp_path / "one.sha256").write_text("# org a 1 jar x\n# org b 2\n00  a-1-x.jar\n11  b-2.jar\n")
    found = read_jar_set("one", tmp_path)
    assert [f"{module.stem}.jar" for module in found.modules] == sorted(found.sums)
    named = '<artifact name="a" type="jar" ext="jar" m:classifier="x"/>'
    assert ivy_module(found).count(named) == ivy_module(found).count("<artifact") == 1


@pytest.mark.parametrize("name", sorted(file.stem for file in LISTS.glob("*.sha256")))
def test_our_lists_have_the_module_of_every_jar(name: str) -> None:
    """Where one is not there, all of a set is resolved again, which takes most of a minute."""
    jars = read_jar_set(name)
    assert sorted(f"{module.stem}.jar" for module in jars.modules) == sorted(jars.sums)
    assert jars.listed


def test_a_mirror_s_settings_are_used_in_the_place_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = Java(tmp_path / "java", 17, "17.0.9")
    java.path.write_text('#!/bin/sh\necho "$@" > "$0.words"\n')
    java.path.chmod(0o755)
    listed = JarSet("a", (Module("org", "a", "1"),), {"a-1.jar": "00"})
    unknown = JarSet("a", (Module("org", "a", "1"),), {})

    def asked(jars: JarSet, name: str) -> str:
        ivy_retrieve(jars, tmp_path / "out", tmp_path / name, java, print)
        return (tmp_path / "java.words").read_text()

    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)
    assert f"-settings {tmp_path}/listed/settings.xml" in asked(listed, "listed")
    assert 'usepoms="false"' in (tmp_path / "listed" / "settings.xml").read_text()
    assert "-settings" not in asked(unknown, "unknown")
    monkeypatch.setenv(SETTINGS_VARIABLE, "/mirror.xml")
    assert "-settings /mirror.xml" in asked(listed, "mirrored")


def test_a_malformed_list_is_refused(tmp_path: Path) -> None:
    for text in ("00  a.jar\n", "# org a\n00  a.jar\n", "# org a 1\n"):
        (tmp_path / "bad.sha256").write_text(text)
        with pytest.raises(EnvironmentFailure, match="is no list of jars"):
            read_jar_set("bad", tmp_path)
