"""A proxy in front of a running Kafka, for tests in any language: ``lostack proxy``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Annotated

import typer

from harness.cli.telling import complain, tell_json_text
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure, UsageError
from harness.proxy.fault import NeverStruckError
from harness.proxy.proxy import NotReadError
from harness.proxy.server import AskedRoute, Proxies, serve
from harness.proxy.spoken import KAFKA
from harness.proxy.upstream import PROTOCOLS
from harness.wire.messages import WireError

SECRET = "LOSTACK_PROXY_SECRET"  # noqa: S105 - the name of the variable
LEAST = 16
"""Characters of a secret."""


def proxy(
    *,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="A broker, or the server. Without it tests add each route over HTTP.",
        ),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="What is spoken: kafka, postgres, stomp or amqp.")
    ] = KAFKA,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="NAME:PORT=HOST:PORT",
            help="Where a broker is that Kafka names by an address that leads nowhere from here.",
        ),
    ] = None,
    listen: Annotated[int, typer.Option(help="Port for the programs. By default a free one.")] = 0,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PORT]",
            help="Programs that get a port of their own, so that a fault can be theirs alone.",
        ),
    ] = None,
    api: Annotated[int, typer.Option(help="Port of the HTTP API. By default a free one.")] = 0,
    security_protocol: Annotated[
        str,
        typer.Option(help="What brokers and programs speak: SSL, SASL_PLAINTEXT or SASL_SSL."),
    ] = PROTOCOLS[0],
    ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="PEM file by which the brokers are trusted, else this machine's."
        ),
    ] = None,
    ca_out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where to write the PEM file that programs must trust."),
    ] = None,
    username: Annotated[
        str | None, typer.Option(help="Who logs in for a request that the proxy delivers itself.")
    ] = None,
    password_from: Annotated[
        str | None, typer.Option(metavar="NAME", help="The variable with that user's password.")
    ] = None,
) -> None:
    """Stand in front of a running Kafka until told to end (Ctrl-C, SIGTERM); tests ask for faults
    over HTTP.

    The first line of output is JSON: the addresses for the programs, and that of the API. The
    secret of the API is in the variable LOSTACK_PROXY_SECRET.
    """
    asked = AskedRoute(
        upstream=upstream or "",
        located=dict(_pair(each) for each in where or ()),
        port=listen,
        protocol=protocol,
        roles=dict(_role(each) for each in role or ()),
        security_protocol=security_protocol,
        ca=ca,
        ca_out=ca_out,
        username=username,
        password=_password(password_from),
    )
    if upstream is None and asked != AskedRoute(upstream=""):
        raise UsageError(
            "only --api is without --upstream: name a broker, or leave the other options out"
        )
    secret = os.environ.get(SECRET, "")
    if len(secret) < LEAST or not secret.isascii():
        raise UsageError(
            f"set the variable {SECRET} to a secret of at least {LEAST} characters: tests send it "
            "in the header Authorization: Bearer SECRET"
        )
    proxies = Proxies()
    try:
        told: dict[str, object] = {}
        if upstream is not None:
            made = proxies.add(asked)
            told = {name: made[name] for name in ("bootstrap", "roles", "ca") if name in made}
        server = serve(proxies, secret, api)
        server.watch = proxies.check
        told["api"] = f"http://127.0.0.1:{server.server_address[1]}"
        tell_json_text(json.dumps(told))
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        proxies.verify()
    except (NeverStruckError, NotReadError) as error:
        complain(str(error))
        raise typer.Exit(ExitCode.BROKEN) from error
    except WireError as error:
        raise EnvironmentFailure(f"the proxy ended: {error}") from error
    finally:
        proxies.close()


def _role(text: str) -> tuple[str, int]:
    name, _, port = text.partition("=")
    if not name or ("=" in text and not port.isdecimal()):
        raise UsageError(f"--role {text!r} is not NAME or NAME=PORT")
    return name, int(port or 0)


def _password(name: str | None) -> str | None:
    if name is None:
        return None
    if name not in os.environ:
        raise UsageError(f"--password-from: the variable {name} is not set")
    return os.environ[name]


def _pair(text: str) -> tuple[str, str]:
    name, _, at = text.partition("=")
    if not at:
        raise UsageError(f"--map {text!r} is not NAME:PORT=HOST:PORT")
    return name, at
