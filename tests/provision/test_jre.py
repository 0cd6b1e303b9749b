"""Java is fetched from a pinned address, checked by its sha256, whole or not at all; what failed is
said.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision import java, jre
from harness.provision.java import find_java, how_to_install
from tests.provision.served import serving, socks_to

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/some/where/java.tar.gz"
SAYS = b"#!/bin/sh\necho 'openjdk version \"17.0.20\" 2026-07-21' >&2\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked itself, whatever the machine's settings."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def archive(name: str = "jdk-17.0.20+8-jre/bin/java") -> bytes:
    """Make an archive with a program in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.mode, entry.size = 0o755, len(SAYS)
        tar.addfile(entry, io.BytesIO(SAYS))
    return packed.getvalue()


def build(address: str, content: bytes) -> jre.Build:
    """Pin a file."""
    return jre.Build(address, hashlib.sha256(content).hexdigest())


def test_it_is_fetched_once_and_runs(tmp_path: Path) -> None:
    """The home lies in the cache, and the next run finds it there without asking anybody."""
    content, said = archive(), list[str]()
    with serving({PATH: content}) as served:
        home = jre.fetch_java(tmp_path, said.append, build(served.address + PATH, content))
        assert jre.fetch_java(tmp_path, said.append, build(served.address + PATH, content)) == home
        assert served.asked == [PATH]
    assert [file.name for file in home.iterdir()] == ["bin"]
    found = find_java(tmp_path, said.append, environ={"PATH": ""}, usual=())
    assert (found.path, found.release) == (home / "bin" / "java", 17)


@pytest.mark.parametrize("login", [None, "me:s3cret#"])
@pytest.mark.parametrize("name", ["ALL_PROXY", "http_proxy"])
def test_it_comes_through_a_socks_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, login: str | None
) -> None:
    """Which looks up the name; ``NO_PROXY`` names who is asked itself."""
    content = archive()
    with serving({PATH: content}) as served, socks_to(served.port, login) as proxy:
        monkeypatch.setenv(name, proxy.named)
        jre.fetch_java(tmp_path / "a", print, build(f"http://java.invalid{PATH}", content))
        assert proxy.asked == [("java.invalid", 80)]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        jre.fetch_java(tmp_path / "b", print, build(served.address + PATH, content))
        assert proxy.asked == [("java.invalid", 80)]


def test_tls_goes_through_a_socks_proxy_and_its_certificate_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    content, tls = archive(), tmp_path / "tls"
    with serving({PATH: content}, tls) as served, socks_to(served.port) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.named)
        pinned = build(f"https://localhost{PATH}", content)
        assert "is not trusted" in failure(tmp_path, pinned)
        monkeypatch.setenv("SSL_CERT_FILE", str(tls / "authority.pem"))
        jre.fetch_java(tmp_path / "cache", print, pinned)
        assert set(proxy.asked) == {("localhost", 443)}


def test_the_proxy_for_everything_holds_for_java_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that speaks HTTP is asked for the whole address."""
    content, address = archive(), f"http://java.invalid{PATH}"
    with serving({address: content}) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.address)
        jre.fetch_java(tmp_path, print, build(address, content))
        assert proxy.asked == [address]


def failure(tmp_path: Path, pinned: jre.Build) -> str:
    """Return the line of a fetch that must fail and leave nothing."""
    with pytest.raises(EnvironmentFailure) as caught:
        jre.fetch_java(tmp_path / "cache", print, pinned)
    assert [
        file.name for file in (tmp_path / "cache").iterdir() if not file.name.endswith(".lock")
    ] == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_was_changed_on_its_way_is_refused(tmp_path: Path) -> None:
    """One byte is enough; nothing of it is unpacked."""
    (tmp_path / "cache").mkdir()
    with serving({PATH: archive() + b"x"}) as served:
        assert "differs from its checksum: sha256 " in failure(
            tmp_path, build(served.address + PATH, archive())
        )


def test_a_server_that_does_not_have_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    with serving({}) as served:
        said = failure(tmp_path, build(served.address + PATH, b""))
        assert said == f"{served.address}{PATH} answers 404 Not Found"


def test_an_address_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    """With the reason of the operating system, and what may help."""
    (tmp_path / "cache").mkdir()
    with serving({}) as served:
        pass
    said = failure(tmp_path, build(served.address + PATH, b""))
    assert said == (
        f"{served.address}{PATH} cannot be reached (Connection refused): check the network, "
        "or name a proxy by HTTPS_PROXY"
    )


def test_a_certificate_that_is_not_trusted_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    with serving({PATH: archive()}, tls=tmp_path / "tls") as served:
        said = failure(tmp_path, build(f"https://127.0.0.1:{served.port}{PATH}", archive()))
    assert "is not trusted (" in said
    assert said.endswith("name the file of your certificate authority by SSL_CERT_FILE")


def test_the_machine_s_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, content = f"http://elsewhere.invalid{PATH}", archive()
    with serving({address: content}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.address)
        assert (jre.fetch_java(tmp_path, print, build(address, content)) / "bin" / "java").exists()
        assert proxy.asked == [address]


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    content = archive("readme")
    with serving({PATH: content}) as served:
        assert (
            failure(tmp_path, build(served.address + PATH, content))
            == "the fetched archive holds no Java"
        )


def test_every_pin_is_whole() -> None:
    """A sha256 for each kind of machine, one address for all of them, which a mirror may take the
    place of.
    """
    for machine, (_, digest) in jre.SUMS.items():
        pinned = jre.build_for(machine, {})
        assert pinned is not None
        assert len(bytes.fromhex(digest)) == hashlib.sha256().digest_size
        assert pinned.address.startswith(
            f"{jre.HOST}/adoptium/temurin17-binaries/releases/download/jdk-17.0.20%2B8/OpenJDK17U-jre_"
        )
    mirrored = jre.build_for("x86_64", {jre.MIRROR: "http://mirror/"})
    assert mirrored is not None
    assert mirrored.address.startswith("http://mirror/adoptium/")
    assert jre.build_for("sparc", {}) is None


def test_why_nothing_was_fetched_is_told_with_what_helps(tmp_path: Path) -> None:
    """What was found, why the fetch failed, and how to install one: in one line."""

    def no_network(_cache: Path, _say: object) -> Path:
        raise EnvironmentFailure("the name cannot be resolved")

    with pytest.raises(EnvironmentFailure) as caught:
        find_java(tmp_path, print, environ={"PATH": ""}, usual=(), fetch=no_network)
    assert str(caught.value).startswith(
        "no Java was found, and none could be fetched: the name cannot be resolved; or install "
        "one: "
    )


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ((17,), "apt-get install openjdk-17-jre-headless"),
        ((21, 25), "apt-get install openjdk-21-jre-headless"),
        ((11, 17, 21), "apt-get install openjdk-21-jre-headless"),
        ((), "apt-get install default-jre-headless"),
        ((25, 29), "from elsewhere, named by LOSTACK_JAVA_HOME (apt-get offers 25, 29)"),
    ],
)
def test_the_hint_names_what_the_package_manager_offers(
    tmp_path: Path, offered: tuple[int, ...], said: str
) -> None:
    """Debian 12 has 17 only, Debian 13 has 21 and 25; an image without lists of packages offers
    nothing yet.
    """
    for name in ("apt-get", "apt-cache"):
        (tmp_path / name).write_text(
            "#!/bin/sh\n"
            + "".join(f"echo 'openjdk-{one}-jre-headless - a Java'\n" for one in offered)
        )
        (tmp_path / name).chmod(0o755)
    assert how_to_install({"PATH": str(tmp_path)}).endswith(said)


def test_where_there_is_no_apt_the_hint_names_no_package(tmp_path: Path) -> None:
    assert java.VARIABLE in how_to_install({"PATH": str(tmp_path)})


def test_only_root_needs_no_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apt-get", "apt-cache"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'openjdk-21-jre-headless - a Java'\n")
        (tmp_path / name).chmod(0o755)
    hints = []
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        hints.append(how_to_install({"PATH": str(tmp_path)}))
    assert hints == [
        "apt-get install openjdk-21-jre-headless",
        "sudo apt-get install openjdk-21-jre-headless",
    ]
