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
from harness.proxy.proxy import NeverStruckError, NotReadError
from harness.proxy.server import Proxies, serve
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
    ] = "kafka",
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="NAME:PORT=HOST:PORT",
            help="Where a broker is that Kafka names by an address that leads nowhere from here.",
        ),
    ] = None,
    listen: Annotated[int, typer.Option(help="Port for the programs. By default a free one.")] = 0,
    api: Annotated[int, typer.Option(help="Port of the HTTP API. By default a free one.")] = 0,
) -> None:
    """Stand in front of a running Kafka until told to end (Ctrl-C, SIGTERM); tests ask for faults
    over HTTP.

    The first line of output is JSON: the address for the programs, and that of the API. The secret
    of the API is in the variable LOSTACK_PROXY_SECRET.
    """
    if upstream is None and (where or listen):
        raise UsageError(
            "--map and --listen belong to --upstream: name a broker, or leave them out"
        )
    located = dict(_pair(each) for each in where or ())
    secret = os.environ.get(SECRET, "")
    if len(secret) < LEAST or not secret.isascii():
        raise UsageError(
            f"set the variable {SECRET} to a secret of at least {LEAST} characters: tests send it "
            "in the header Authorization: Bearer SECRET"
        )
    proxies = Proxies()
    try:
        told = {}
        if upstream is not None:
            told["bootstrap"] = proxies.add(upstream, located, listen, protocol)["bootstrap"]
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


def _pair(text: str) -> tuple[str, str]:
    name, _, at = text.partition("=")
    if not at:
        raise UsageError(f"--map {text!r} is not NAME:PORT=HOST:PORT")
    return name, at
