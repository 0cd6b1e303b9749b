"""How a user's programs come to the brokers: what a declaration may say, what it must, and what
cannot be.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
)

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Deployment
from harness.pipelines import DeclarationError, read_pipeline
from harness.provision.certificates import make_certificates
from harness.provision.probing import probe
from harness.stages.access import Access
from harness.systems.declared.brokers.attachment import Attachment
from harness.systems.declared.brokers.listeners import listeners_of
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.scenes import EXAMPLES
from tests.wire.tls import TlsSocket, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.pipelines.security import DeclaredSecurity

SECURED = EXAMPLES / "secured" / "pipeline.toml"
TEXT = SECURED.read_text(encoding="utf-8")


def declared(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the example's declaration with other words."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_example_says_what_it_speaks() -> None:
    found = read_pipeline(SECURED)
    assert found.security is not None
    assert (found.security.protocol, found.security.security.tls) == ("SASL_SSL", True)
    assert found.security.security.protocol == "SASL_SSL"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'mechanism = "SCRAM-SHA-256"',
            'mechanism = "GSSAPI"',
            r"Kerberos \(GSSAPI\) is not supported",
        ),
        (
            'mechanism = "SCRAM-SHA-256"',
            'mechanism = "OAUTHBEARER"',
            "'OAUTHBEARER' is not known; there are: PLAIN, SCRAM-SHA-256",
        ),
        ('mechanism = "SCRAM-SHA-256"', "", "SASL_SSL needs a mechanism"),
        ('protocol = "SASL_SSL"', 'protocol = "SSL"', "SSL has no mechanism"),
        ('protocol = "SASL_SSL"', 'protocol = "TLS"', "security: protocol: 'TLS' is not known"),
        (
            'protocol = "SASL_SSL"',
            'protocol = "SASL_SSL"\ncertificate = "me.pem"',
            r"mTLS identity",
        ),
        ('protocol = "SASL_SSL"', 'protocol = "SASL_SSL"\nkeystore = "me.jks"', r"mTLS identity"),
        (
            'protocol = "SASL_SSL"',
            'protocol = "SASL_SSL"\nusername = "me"',
            "username and password_from belong together",
        ),
        (
            'protocol = "SASL_SSL"',
            'protocol = "SASL_SSL"\npasword = "x"',
            "there is no field pasword",
        ),
        ('"{ca}"', '"/etc/ca.pem"', r"no command or environment has {ca}"),
        ('"{password}"', '"secret"', r"no environment has {password} or {jaas}"),
        (
            '"{python} producer.py"',
            '"{python} producer.py {password}"',
            r"producer's command: every user of this machine can see it",
        ),
        (
            '[security]\nprotocol = "SASL_SSL"\nmechanism = "SCRAM-SHA-256"\n',
            "",
            r"{ca} needs a \[security\]",
        ),
        (
            "claims =",
            "brokers = 3\nclaims =",
            r"brokers: with \[security\] lostack starts one, not 3: take one of the two away",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    """One line each, before anything is started."""
    with pytest.raises(DeclarationError, match=said) as error:
        read_pipeline(declared(tmp_path, (old, new)))
    assert "\n" not in str(error.value)


def test_no_password_is_saved_with_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it a part of what is declared: it stands in an environment variable, or nowhere."""
    monkeypatch.setenv("ORDERS_PASSWORD", "opensesame")
    file = declared(
        tmp_path,
        (
            'protocol = "SASL_SSL"',
            'protocol = "SASL_SSL"\nusername = "me"\npassword_from = "ORDERS_PASSWORD"',
        ),
    )
    pipeline = read_pipeline(file)
    access = Attachment("127.0.0.1:1", pipeline).access
    assert access is not None
    assert access.users == {"me": "opensesame"}
    assert "opensesame" not in f"{dataclasses.asdict(pipeline)} {access!r}"


def test_somebody_elses_users_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of brokers that are up already; and the password must be where it is said to be."""
    with pytest.raises(DeclarationError, match="give username and password_from"):
        Attachment("127.0.0.1:1", read_pipeline(SECURED)).check()
    named = (
        'protocol = "SASL_SSL"',
        'protocol = "SASL_SSL"\nusername = "me"\npassword_from = "NO_SUCH"',
    )
    monkeypatch.delenv("NO_SUCH", raising=False)
    with pytest.raises(DeclarationError, match="the environment variable NO_SUCH is not set"):
        Attachment("127.0.0.1:1", read_pipeline(declared(tmp_path, named))).check()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SaslAuthenticationFailedError("no"), "refuses lostack: correct the log-in"),
        (ClusterAuthorizationFailedError("no"), "give its user the right"),
        (KafkaTimeoutError("no"), "does not answer: check the address and that it runs"),
        (ConnectionRefusedError("no"), "does not answer: check the address and that it runs"),
    ],
)
def test_a_cluster_that_refuses_is_not_one_that_does_not_answer(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: Attachment) -> None:
        raise error

    monkeypatch.setattr(Attachment, "_ask", ask)
    with pytest.raises(EnvironmentFailure, match=said) as failure:
        Attachment("127.0.0.1:1", read_pipeline(EXAMPLES / "orders" / "pipeline.toml")).entrances()
    assert "\n" not in str(failure.value)


def test_a_listener_that_speaks_otherwise_is_named() -> None:
    settings = {
        "listeners": "LOSTACK_CONSUMER://127.0.0.1:9192",
        "advertised.listeners": "LOSTACK_CONSUMER://127.0.0.1:9292",
        "listener.security.protocol.map": "LOSTACK_CONSUMER:PLAINTEXT,SSL:SSL",
    }
    assert listeners_of("broker-1", "127.0.0.1", settings, ["consumer"])
    with pytest.raises(
        EnvironmentFailure,
        match="speaks PLAINTEXT at LOSTACK_CONSUMER, but the pipeline's programs speak SASL_SSL",
    ):
        listeners_of("broker-1", "127.0.0.1", settings, ["consumer"], "SASL_SSL")


# --- a broker that is up already ------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Where a broker would be."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(10)
        yield made


def serve(
    listener: socket.socket, folder: Path, *, identity: bool = False, bare: bool = False
) -> Path:
    """Answer one client as a broker does; return the authority to trust."""
    papers = make_certificates(folder / "broker")

    def answer() -> None:
        sock, _ = listener.accept()
        sock.settimeout(10)
        try:
            end = (
                sock
                if bare
                else TlsSocket(sock, serving(papers, identity=papers if identity else None))
            )
            end.recv(100)
            end.sendall(b"\0\0\0\4answer")
        except OSError:
            pass
        finally:
            sock.close()

    threading.Thread(target=answer, daemon=True).start()
    return papers.authority


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, None),
        ({"identity": True}, "mTLS identity"),
        ({"bare": True}, "does not use TLS on this port"),
        ({"other": True}, "certificate is not trusted: "),
    ],
)
def test_a_broker_is_asked_before_anything_is_started(
    listener: socket.socket, tmp_path: Path, how: dict[str, bool], said: str | None
) -> None:
    """One that trusts, one that wants a certificate of ours, one without TLS, one of another
    authority.
    """
    other = make_certificates(tmp_path / "other").authority if how.pop("other", False) else None
    authority = serve(listener, tmp_path, **how)
    port = listener.getsockname()[1]
    if said is None:
        return probe("127.0.0.1", port, str(authority), "ca")
    with pytest.raises(EnvironmentFailure, match=said) as error:
        probe("127.0.0.1", port, str(other or authority), "ca")
    assert "\n" not in str(error.value)
    return None


def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"security: ca: .*nowhere\.pem: No such file"):
        probe("127.0.0.1", 1, str(tmp_path / "nowhere.pem"), "security: ca")


# --- what is handed to clients --------------------------------------------------------------------


@pytest.mark.parametrize(
    "access",
    [
        Access("SSL", "/ca.pem"),
        Access("SASL_PLAINTEXT", "", "PLAIN", "me", 'a"b\\c'),
        Access("SASL_SSL", "/ca.pem", "SCRAM-SHA-512", "me", "x"),
    ],
)
def test_each_client_has_its_own_words_for_it(access: Access, tmp_path: Path) -> None:
    """And a file says all of it, which only its owner may read; what is shown of it has no
    password.
    """
    file = tmp_path / "access.json"
    file.write_text(access.text(), encoding="utf-8")
    assert Access.read(str(file)) == access
    assert Access.read("") is None
    assert (
        access.for_java().get("sasl.mechanism", "")
        == access.for_librdkafka().get("sasl.mechanism", "")
        == access.mechanism
    )
    assert (
        ("ssl_cafile" in access.for_kafka_python())
        == ("ssl.truststore.location" in access.for_java())
        == bool(access.authority)
    )
    assert access.places()["security_protocol"] == access.protocol
    assert "password" not in repr(access)
    if access.mechanism == "PLAIN":
        assert access.for_java()["sasl.jaas.config"].endswith(r'password="a\"b\\c";')


class RecordingBrokers:
    """Brokers that remember how they were asked for."""

    attached = False
    directory = Path("nowhere")

    def __init__(self) -> None:
        self.asked: list[DeclaredSecurity | None] = []
        self.ended = 0
        self.wire = self

    def check(self) -> None:
        """It lives."""

    def admit(self, run: Path) -> None:
        """Let everybody in."""

    def prepare(self, say: object) -> None:
        """Nothing is fetched."""

    def versions(self) -> dict[str, str]:
        """None."""
        return {}

    def brokers(
        self,
        need: Deployment,
        directory: Path,
        security: DeclaredSecurity | None,
        roles: tuple[str, ...] = (),
        size: int = 1,
    ) -> RecordingBrokers:
        """Take note."""
        del need, directory, roles, size
        self.asked.append(security)
        return self

    def start(self) -> None:
        """Nothing starts."""

    def close(self) -> None:
        """Take note."""
        self.ended += 1


def test_a_broker_is_kept_for_those_who_come_alike(tmp_path: Path) -> None:
    """Pipelines of one session may come in different ways: who comes otherwise gets
    another broker.
    """
    source = RecordingBrokers()
    system = DeclaredSystem(keep=True, source=source)  # type: ignore[arg-type]
    secured = read_pipeline(SECURED)
    for pipeline in (
        secured,
        secured,
        replace(
            secured,
            security=None,
            stages=read_pipeline(EXAMPLES / "orders" / "pipeline.toml").stages,
        ),
    ):
        system._come_by(pipeline.security, ())
        system.deploy(Deployment.SHARED, tmp_path).close()
    assert [each and each.protocol for each in source.asked] == ["SASL_SSL", None]
    assert source.ended == 1
    system.close()
    assert source.ended == 2
