"""The typed adapter over the library toxiproxy-python.

It works around these faults of version 0.1.1: the server's address is a class attribute, so a
process can use only one server; no request has a time-out; an HTTP 500 becomes ``KeyError:
'name'``; a toxic cannot be changed; and requests to loopback go through a proxy of the environment
(``HTTP_PROXY``). The server itself silently ignores unknown attributes, so every toxic is read back
and compared.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import requests
import toxiproxy.proxy
import toxiproxy.server
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from harness.services.toxiproxy.toxics import Toxic, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOOPBACK: Final = "127.0.0.1"
ANSWER_WITHIN_S: Final = 10.0

_address: ContextVar[str] = ContextVar("toxiproxy")


class ToxiproxyError(Exception):
    """The Toxiproxy server did not do what it was asked. The message is one line."""


class _Api(APIConsumer):  # type: ignore[misc]
    """The library's transport, with an address per call, a time-out, and an exception for every
    HTTP error.
    """

    @classmethod
    def get(cls, url: str) -> requests.Response:
        return _ask("GET", url)

    @classmethod
    def post(cls, url: str, json: object = None) -> requests.Response:
        return _ask("POST", url, json)

    @classmethod
    def delete(cls, url: str) -> requests.Response:
        return _ask("DELETE", url)


# the library's modules look their transport up by this name
toxiproxy.proxy.APIConsumer = toxiproxy.server.APIConsumer = _Api


def _ask(method: str, url: str, json: Any = None) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.request(
            method, f"http://{_address.get()}{url}", timeout=ANSWER_WITHIN_S, json=json
        )
    if not answer.ok:
        raise ToxiproxyError(f"Toxiproxy refused {method} {url}: {_told(answer)}")
    return answer


def _told(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"


class Toxiproxy:
    """A running server. Several may be used at once, each from several threads. Raises
    :class:`ToxiproxyError`.
    """

    def __init__(self, port: int) -> None:
        self._host_port = f"{LOOPBACK}:{port}"
        self._server = toxiproxy.server.Toxiproxy()

    def ready(self) -> bool:
        """Return whether the server answers."""
        try:
            self.names()
        except ToxiproxyError:
            return False
        return True

    def names(self) -> tuple[str, ...]:
        """Return the names of all proxies."""
        with self._call():
            return tuple(sorted(self._server.proxies()))

    def create(
        self,
        name: str,
        upstream_port: int,
        *,
        host: str = LOOPBACK,
        listen_port: int = 0,
        bind: str = LOOPBACK,
    ) -> int:
        """Make a proxy in front of a port; return the port on which it listens (0 lets the server
        pick one).
        """
        with self._call():
            made = self._server.create(
                f"{host}:{upstream_port}", name, listen=f"{bind}:{listen_port}", enabled=True
            )
            return int(made.listen.rsplit(":", 1)[1])

    def destroy(self, name: str) -> None:
        """Remove a proxy and close its connections."""
        with self._call():
            self._proxy(name).destroy()

    def put_on(self, name: str, toxics: Iterable[Toxic]) -> None:
        """Add toxics to a proxy, and read them back to make sure that the server took every
        attribute.
        """
        for toxic in toxics:
            with self._call():
                self._proxy(name).add_toxic(
                    type=toxic.type,
                    stream=str(toxic.stream),
                    name=name_of(toxic),
                    attributes=toxic.attributes,
                )
            self._see(name, toxic)

    def take_off(self, name: str, toxics: Iterable[Toxic]) -> None:
        """Remove toxics from a proxy."""
        for toxic in toxics:
            with self._call():
                self._proxy(name).destroy_toxic(name_of(toxic))

    def toxics(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the toxics on a proxy by name, each with its type, stream, toxicity and
        attributes.
        """
        with self._call():
            found = self._proxy(name).toxics()
        return {
            key: {
                "type": t.type,
                "stream": t.stream,
                "toxicity": t.toxicity,
                "attributes": t.attributes,
            }
            for key, t in found.items()
        }

    def _see(self, name: str, toxic: Toxic) -> None:
        found = self.toxics(name).get(name_of(toxic))
        want = {
            "type": toxic.type,
            "stream": str(toxic.stream),
            "toxicity": 1,
            "attributes": toxic.attributes,
        }
        if found != want:
            raise ToxiproxyError(f"Toxiproxy was asked for {want} and has {found}")

    def _proxy(self, name: str) -> toxiproxy.Proxy:
        found = self._server.get_proxy(name)
        if found is None:
            raise ToxiproxyError(f"Toxiproxy has no proxy {name}")
        return found

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Direct requests to this server, and turn every exception into a
        :class:`ToxiproxyError`.
        """
        token = _address.set(self._host_port)
        try:
            yield
        except (
            requests.RequestException,
            ProxyExists,
            NotFound,
            InvalidToxic,
            ValueError,
            KeyError,
        ) as error:
            raise ToxiproxyError(
                f"Toxiproxy at {self._host_port}: {type(error).__name__}: {error}"
            ) from error
        finally:
            _address.reset(token)
