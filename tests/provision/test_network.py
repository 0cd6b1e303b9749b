"""Jars are fetched through the machine's proxies, and what a server's answer means is told."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from harness.model.failures import EnvironmentFailure
from harness.model.identity import UnreadValueError
from harness.provision.cache import cache_root
from harness.provision.central import Module
from harness.provision.download import download
from harness.provision.jars import OPTIONS, SETTINGS_VARIABLE, JarSet, ivy_retrieve
from harness.provision.java import find_java
from harness.provision.network import argument_file, opener, proxy_options, why_failed
from harness.values.registry import _opener
from tests.provision.served import serving, socks_to

JARS = JarSet("test", (Module("org.test", "thing", "1"),), {"thing-1.jar": "00"})
AT = "/m2/org/test/thing/1/thing-1.jar"
DIRECT = "-Dhttp.nonProxyHosts=localhost|127.*|[::1]"
SOCKS_DIRECT = DIRECT.replace("http.non", "socksNon")


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, []),
        (
            {"HTTPS_PROXY": "http://proxy:3128"},
            ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128", DIRECT],
        ),
        ({"http_proxy": "proxy"}, ["-Dhttp.proxyHost=proxy", "-Dhttp.proxyPort=80", DIRECT]),
        (
            {"ALL_PROXY": "socks5://proxy"},
            ["-DsocksProxyHost=proxy", "-DsocksProxyPort=1080", DIRECT, SOCKS_DIRECT],
        ),
        (
            {"ALL_PROXY": "socks4://me:p%40ss@proxy:9", "HTTPS_PROXY": "http://web:8"},
            [
                "-DsocksProxyHost=proxy",
                "-DsocksProxyPort=9",
                "-DsocksProxyVersion=4",
                "-Dhttps.proxyHost=web",
                "-Dhttps.proxyPort=8",
                DIRECT,
                SOCKS_DIRECT,
            ],
        ),
        (
            {"https_proxy": "https://[::1]/", "HTTPS_PROXY": "http://ignored:1"},
            ["-Dhttps.proxyHost=::1", "-Dhttps.proxyPort=443", DIRECT],
        ),
        (
            {"https_proxy": "http://p:1", "NO_PROXY": ".corp.example, repo:8081 10.0.0.7,*.b"},
            [
                "-Dhttps.proxyHost=p",
                "-Dhttps.proxyPort=1",
                f"{DIRECT}|corp.example|*.corp.example|repo|*.repo|10.0.0.7|b|*.b",
            ],
        ),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, []),
    ],
)
def test_a_jvm_is_told_of_the_proxies(environ: dict[str, str], options: list[str]) -> None:
    """Each variable, in capitals or not; what goes past the proxy means its subdomains, too."""
    assert proxy_options(environ) == options


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("http://me:s3cret@proxy:99999", "its port is no number from 1 to 65535"),
        ("me:s3cret@proxy:abc", "its port is no number from 1 to 65535"),
        ("socks5h://me:s3cret@proxy:abc", "its port is no number from 1 to 65535"),
        ("socks5://me:s3cret@[::1", "its brackets do not match"),
        ("http://me:s3cret?x@proxy:3128", "its port is no number from 1 to 65535"),
        ("http://me:s3cret#@proxy:3128", "its port is no number from 1 to 65535"),
        ("http://me:s3cret@:3128", "it has no host"),
        ("http://proxy:0", "its port is 0"),
        ("ftp://proxy:21", "it speaks none of http, https, socks"),
    ],
)
def test_a_wrong_proxy_is_told_in_one_line(
    name: str, written: str, why: str, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which variable, what is wrong with it, what to write; by all that read it, without the
    log-in.
    """
    del alone
    monkeypatch.setenv(name, written)
    for read in (
        lambda: proxy_options(os.environ),
        opener,
        lambda: _opener("https://schemas.test"),
    ):
        with pytest.raises((EnvironmentFailure, UnreadValueError)) as caught:
            read()
        said = str(caught.value)
        assert said.startswith(f"{name} is not the address of a proxy")
        assert why in said
        assert "write it as http://HOST:PORT or socks5h://HOST:PORT" in said
        assert "\n" not in said
        assert "s3cret" not in said


def test_a_proxy_s_password_is_told_as_it_is() -> None:
    """Written in an address it is quoted; Java wants it plain."""
    options = proxy_options({"https_proxy": "http://me:p%40ss@proxy:1"})
    assert {"-Dhttp.proxyUser=me", "-Dhttp.proxyPassword=p@ss"} <= set(options)


def test_options_in_a_file_come_as_they_are(tmp_path: Path) -> None:
    """Blanks, quotes, backslashes and number signs: java itself reads them."""
    value = """a b "c" \\ 'd' # e\r\n@f"""
    (tmp_path / "options").write_text(argument_file([f"-Dlostack={value}"]))
    java = find_java(cache_root(), print).path
    command = (java, f"@{tmp_path / 'options'}", "-XshowSettings:properties", "-version")
    said = subprocess.run(command, capture_output=True, check=True).stderr
    assert f"lostack = {value}" in said.decode()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Host repo.test not found. url=https://repo.test/a.jar", "repo.test: not found"),
        ("CLIENT ERROR: Forbidden url=https://repo.test/a.jar", "repo.test: Forbidden"),
        (
            "Server access error at url https://repo.test:8/a (java.net.ConnectException: refused)",
            "repo.test:8: refused",
        ),
        (":: org.test#thing;1: not found", None),
    ],
)
def test_what_a_line_of_ivy_means(line: str, why: str | None) -> None:
    """Which server, and why; a module that is missing there is something else."""
    assert why_failed(f"\t{line}", Path("java")) == why


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine."""
    for name in os.environ:
        if name.lower().endswith("_proxy") or name in {SETTINGS_VARIABLE, "JAVA_TOOL_OPTIONS"}:
            monkeypatch.delenv(name)


@pytest.fixture
def fetching(tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch) -> Fetching:
    """Fetch from a repository of one's own."""
    del alone
    return Fetching(tmp_path, monkeypatch)


class Fetching:
    """Fetches with the real Ivy from a repository."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        (folder / "out").mkdir()

    def fetch(self, root: str, **environ: str) -> Path:
        """Fetch the jar from a repository with these settings."""
        settings = self.folder / "settings.xml"
        settings.write_text(
            '<ivysettings><settings defaultResolver="central"/><resolvers>'
            f'<ibiblio name="central" root="{root}/m2" m2compatible="true" usepoms="false" '
            'useMavenMetadata="false" checksums=""/></resolvers></ivysettings>'
        )
        for name, value in {SETTINGS_VARIABLE: str(settings), **environ}.items():
            self._monkeypatch.setenv(name, value)
        java, ivy = find_java(cache_root(), print), self.folder / "ivy"
        ivy_retrieve(JARS, self.folder / "out", ivy, java, lambda _: None)
        return self.folder / "out" / "thing-1.jar"

    def failure(self, root: str, **environ: str) -> str:
        """Return the one line of a fetch that must fail."""
        with pytest.raises(EnvironmentFailure) as caught:
            self.fetch(root, **environ)
        assert "\n" not in str(caught.value)
        return str(caught.value)


def test_jars_come_through_the_proxy(fetching: Fetching) -> None:
    """Which is asked for the whole address; the repository's name need not be known here."""
    with serving({f"http://repo.invalid{AT}": b"jar"}) as proxy:
        assert (
            fetching.fetch("http://repo.invalid", HTTP_PROXY=proxy.address).read_bytes() == b"jar"
        )
        assert set(proxy.asked) == {f"http://repo.invalid{AT}"}


@pytest.mark.rest
def test_a_tunnel_is_asked_for_and_its_refusal_told(fetching: Fetching) -> None:
    """HTTPS goes by CONNECT; what the proxy answers is the reason."""
    with serving({}) as proxy:
        said = fetching.failure("https://repo.invalid", HTTPS_PROXY=proxy.address)
        assert proxy.asked == ["repo.invalid:443"]
    assert "repo.invalid: Unable to tunnel through proxy" in said
    assert "502" in said


def test_a_proxy_that_wants_a_login_gets_it(fetching: Fetching) -> None:
    """From a file that only its owner may read, never on the command line."""
    with serving({f"http://repo.invalid{AT}": b"jar"}, login="me:s3cret#") as proxy:
        named = proxy.address.replace("//", "//me:s3cret%23@")
        assert fetching.fetch("http://repo.invalid", http_proxy=named).read_bytes() == b"jar"
    options = fetching.folder / "ivy" / OPTIONS
    assert "s3cret#" in options.read_text()
    assert stat.S_IMODE(options.stat().st_mode) == 0o600


@pytest.mark.rest
def test_a_login_that_ivy_cannot_give_a_socks_proxy_is_told(fetching: Fetching) -> None:
    with socks_to(0, "me:s3cret#") as proxy:
        said = fetching.failure("http://repo.invalid", ALL_PROXY=proxy.named)
    assert "SOCKS : authentication failed" in said
    assert "s3cret" not in said


@pytest.mark.rest
def test_jars_do_not_come_by_socks_4(fetching: Fetching) -> None:
    """Java hands such a proxy addresses, and looks up no names for it: as the docs say."""
    with serving({}) as proxy:
        said = fetching.failure("http://repo.invalid", ALL_PROXY=f"socks4://127.0.0.1:{proxy.port}")
        assert proxy.asked == []
    assert "repo.invalid: not found" in said


def test_jars_come_through_a_socks_proxy(fetching: Fetching) -> None:
    """By the variable that holds for everything."""
    with serving({AT: b"jar"}) as repository, socks_to(repository.port) as proxy:
        jar = fetching.fetch("http://repo.invalid", ALL_PROXY=proxy.named)
        assert jar.read_bytes() == b"jar"
        assert set(proxy.asked) == {("repo.invalid", 80)}


@pytest.mark.rest
def test_no_proxy_is_heeded_with_socks(fetching: Fetching) -> None:
    with serving({AT: b"jar"}) as repository, socks_to(repository.port) as proxy:
        said = fetching.failure(
            "http://repo.invalid", ALL_PROXY=proxy.named, no_proxy="elsewhere,repo.invalid"
        )
        assert (proxy.asked, repository.asked) == ([], [])
    assert "repo.invalid: not found" in said or "repo.invalid: repo.invalid" in said


@pytest.mark.rest
def test_no_proxy_is_heeded(fetching: Fetching) -> None:
    with serving({AT: b"jar"}) as repository, serving({}) as proxy:
        root = repository.address.replace("127.0.0.1", "localhost")
        fetching.fetch(root, http_proxy=proxy.address, no_proxy="elsewhere")
        assert (proxy.asked, bool(repository.asked)) == ([], True)


@pytest.mark.rest
def test_an_unknown_authority_is_told_and_can_be_trusted(fetching: Fetching) -> None:
    """The message names the trust store's variable; with it, the jar comes."""
    tls = fetching.folder / "tls"
    with serving({AT: b"jar"}, tls) as repository:
        root = repository.address.replace("http:", "https:")
        said = fetching.failure(root)
        assert f"does not trust the certificate of 127.0.0.1:{repository.port}" in said
        assert "not found" not in said
        assert "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE" in said
        shutil.rmtree(fetching.folder / "ivy")
        store = trust_store(tls)
        options = f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"
        assert fetching.fetch(root, JAVA_TOOL_OPTIONS=options).read_bytes() == b"jar"


def trust_store(tls: Path) -> Path:
    """Make a trust store of the test's authority, by the tool of the Java that fetches."""
    keytool = find_java(cache_root(), print).path.resolve().with_name("keytool")
    words = ["-importcert", "-noprompt", "-alias", "test", "-storepass", "changeit"]
    files: list[str | Path] = ["-keystore", tls / "store", "-file", tls / "authority.pem"]
    command = [keytool, *words, *files]
    subprocess.run(command, check=True, capture_output=True)
    return tls / "store"


def test_a_server_that_is_not_there_is_told(fetching: Fetching) -> None:
    with serving({}) as gone:
        pass
    said = fetching.failure(gone.address)
    assert f"127.0.0.1:{gone.port}: Connection refused" in said


@pytest.mark.rest
def test_a_module_that_the_repository_lacks_is_not_found(fetching: Fetching) -> None:
    with serving({}) as repository:
        assert "not found: org.test#thing;1" in fetching.failure(repository.address)


PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return what sets variables, with none set that names a proxy."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


def test_a_proxy_that_refuses_is_named(no_proxy: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without its log-in; and nobody is told to name one."""
    with serving({}) as served:
        address = served.address
    closed = address.removeprefix("http://")
    no_proxy.setenv("HTTP_PROXY", f"http://me:secret@{closed}")
    with pytest.raises(EnvironmentFailure) as failed:
        download("http://files.example/one", tmp_path / "one")
    assert str(failed.value) == (
        f"http://files.example/one cannot be reached through the proxy {closed} (HTTP_PROXY) "
        "(Connection refused): check that proxy, or unset HTTP_PROXY"
    )
    no_proxy.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(EnvironmentFailure, match="check the network, or name a proxy"):
        download(f"{address}/one", tmp_path / "one")


def test_ivy_is_said_to_have_asked_through_a_proxy(no_proxy: pytest.MonkeyPatch) -> None:
    """The name that was not found may be the proxy's."""
    line = "Host jars.example not found. url=https://jars.example/a.jar"
    assert why_failed(line, Path("java")) == "jars.example: not found"
    no_proxy.setenv("ALL_PROXY", "junk")
    said = "jars.example: not found (asked through the proxy junk:80 (ALL_PROXY))"
    assert why_failed(line, Path("java")) == said
    no_proxy.setenv("NO_PROXY", "example")
    assert why_failed(line, Path("java")) == "jars.example: not found"
