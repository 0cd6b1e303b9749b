"""Without PySpark a locked set of jars comes by HTTPS, from Maven Central or a mirror of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import pytest
from jgo.constants import MAVEN_CENTRAL_URL

from harness.model.failures import EnvironmentFailure
from harness.provision import jars
from harness.provision.central import MIRROR, Module, address_of
from harness.provision.jars import SETTINGS_VARIABLE, JarSet, ensure_jars
from harness.provision.java import Java
from tests.provision.served import serving

if TYPE_CHECKING:
    from pathlib import Path

CONTENT: Final = {"thing-1.jar": b"a jar", "nest-2.0.jar": b"an archive", "ore-3-no.jar": b"other"}
MODULES: Final = (
    Module("org.test", "thing", "1"),
    Module("org", "nest", "2.0", "nar"),
    Module("org", "ore", "3", "jar", "no"),
)
FILES: Final = {
    "/m2/org/ore/3/ore-3-no.jar": CONTENT["ore-3-no.jar"],
    "/m2/org/test/thing/1/thing-1.jar": CONTENT["thing-1.jar"],
    "/m2/org/nest/2.0/nest-2.0.nar": CONTENT["nest-2.0.jar"],
}
LISTED: Final = JarSet(
    "test", MODULES, {name: hashlib.sha256(text).hexdigest() for name, text in CONTENT.items()}
)


@pytest.fixture(autouse=True)
def without_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark is not installed, and the machine's settings say nothing."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in (MIRROR, SETTINGS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("harness.model.extras.EXTRAS", {"spark": ("nowhere",)})
    (tmp_path / "cache").mkdir()


def fetched(tmp_path: Path, jar_set: JarSet = LISTED) -> Path:
    """Fetch a set into a cache of one's own."""
    java = Java(tmp_path / "no-java", 17, "17.0.9")
    return ensure_jars(jar_set, cache=tmp_path / "cache", java=java, say=lambda _: None)


def test_jars_come_from_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from its place; a file of another kind is stored as a jar; no JVM is started."""
    with serving(FILES) as served:
        monkeypatch.setenv(MIRROR, f"{served.address}/m2/")
        folder = fetched(tmp_path)
        assert {file.name: file.read_bytes() for file in folder.glob("*.jar")} == CONTENT
        assert sorted(served.asked) == sorted(FILES)
        assert fetched(tmp_path) == folder
        assert len(served.asked) == len(FILES)


def test_maven_central_is_asked_where_no_mirror_is_named() -> None:
    """At the address that jgo knows, over TLS."""
    address = address_of(MODULES[0], {})
    assert address == f"{MAVEN_CENTRAL_URL}/org/test/thing/1/thing-1.jar"
    assert address.startswith("https://")


def test_a_jar_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its address; nothing half-made stays in the cache."""
    with serving({}) as served:
        monkeypatch.setenv(MIRROR, f"{served.address}/m2")
        with pytest.raises(EnvironmentFailure) as caught:
            fetched(tmp_path)
    said = str(caught.value)
    assert said.startswith("cannot fetch the jars of test: http://127.0.0.1:")
    assert "answers 404" in said
    assert said.endswith(f"check the network, or name a mirror by {MIRROR}")
    assert not (tmp_path / "cache" / "jars" / "test").exists()


def test_a_jar_that_differs_from_its_sum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(dict.fromkeys(FILES, b"a stranger's")) as served:
        monkeypatch.setenv(MIRROR, f"{served.address}/m2")
        with pytest.raises(EnvironmentFailure, match="fetched twice and differs from the list"):
            fetched(tmp_path)
        assert len(served.asked) == 2 * len(FILES)


@pytest.mark.parametrize(
    ("environ", "pyspark", "listed", "way"),
    [
        ({}, False, True, "direct"),
        ({}, True, True, "ivy"),
        ({MIRROR: "http://mirror.invalid"}, True, True, "direct"),
        ({SETTINGS_VARIABLE: "/settings.xml"}, False, True, "ivy"),
        ({}, False, False, "ivy"),
    ],
)
def test_ivy_is_asked_for_what_only_it_can_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    environ: dict[str, str],
    pyspark: bool,
    listed: bool,
    way: str,
) -> None:
    """To resolve dependencies, to read its settings; else where it is installed."""
    went: list[str] = []
    monkeypatch.setattr(jars, "fetch_listed", lambda *_: went.append("direct"))
    monkeypatch.setattr(jars, "ivy_retrieve", lambda *_: went.append("ivy"))
    monkeypatch.setattr(jars, "lacks", lambda _: None if pyspark else "pyspark")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    jar_set = LISTED if listed else JarSet("test", MODULES[:1], {})
    java = Java(tmp_path / "no-java", 17, "17.0.9")
    jars.retrieve_jars(jar_set, tmp_path, tmp_path, java, lambda _: None)
    assert went == [way]


def test_ivy_s_settings_need_ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, "/settings.xml")
    with pytest.raises(EnvironmentFailure, match=r"pip install 'lostack\[spark\]'$"):
        fetched(tmp_path)
