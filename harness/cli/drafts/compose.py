"""The services of a docker-compose file: which of them are brokers, which databases, and which
could be stages.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
BROKERS = ("kafka", "redpanda", "activemq", "artemis", "pulsar")
BESIDE = ("zookeeper", "kafka-ui", "kafdrop", "akhq", "prometheus", "grafana")
SERVERS = {
    "postgres": "postgres -p {port}",
    "mysql": "mysqld --port={port}",
    "mariadb": "mariadbd --port={port}",
    "mongo": "mongod --port {port}",
    "redis": "redis-server --port {port}",
    "schema-registry": "",
    "elasticsearch": "",
    "minio": "",
}
"""Servers, by a part of their images' names, and the command that starts each on a given port
(empty: none is known).
"""
_PORT = re.compile(r"(\d+)(?:/tcp)?$")


@dataclass(frozen=True, slots=True)
class Composed:
    """One service. ``kind``: broker, server, program, or beside (no part of the pipeline).
    ``port``: the port it listens on.
    """

    name: str
    kind: str
    image: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0


def read_compose(file: Path) -> tuple[Composed, ...]:
    """Return the services of a compose file.

    Raises:
        DeclarationError: the file cannot be read, or has no services; one line that names it.
    """
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
        services = data["services"]
        return tuple(
            _service(str(name), told or {}, file.resolve().parent.name)
            for name, told in services.items()
        )
    except OSError as error:
        raise DeclarationError(f"cannot read {file}: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise DeclarationError(
            f"{file} is not a docker-compose file: services, or one of them, is not a table"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise DeclarationError(
            f"{file} is not a docker-compose file with services: "
            f"{' '.join(str(error).split())[:120]}"
        ) from error


def _service(name: str, told: Mapping[str, Any], project: str) -> Composed:
    image = str(told.get("image") or f"{re.sub(r'[^a-z0-9_-]', '', project.lower())}-{name}")
    ports = [
        match[1] for port in told.get("ports", ()) if (match := _PORT.search(str(_target(port))))
    ]
    return Composed(
        name=name,
        kind=_kind(name, image),
        image=image,
        command=_words(told.get("command")),
        environment=_environment(told.get("environment")),
        port=int(ports[0]) if ports else 0,
    )


def _target(port: Any) -> Any:
    return port.get("target") if isinstance(port, dict) else port


def _kind(name: str, image: str) -> str:
    """Say what a service is, by its image and its name.

    >>> images = {"db": "postgres:16", "kafka-ui": "provectuslabs/kafka-ui", "billing": "acme"}
    >>> tuple(_kind(*each) for each in images.items())
    ('server', 'beside', 'program')
    """
    what = f"{image.rpartition('/')[2].partition(':')[0]} {name}"
    for kind, names in (("beside", BESIDE), ("server", SERVERS)):
        if any(each in what for each in names):
            return kind
    image_name, _, _ = what.partition(" ")
    return "broker" if any(each in image_name for each in BROKERS) else "program"


def _words(command: Any) -> tuple[str, ...]:
    if not command:
        return ()
    return tuple(shlex.split(command)) if isinstance(command, str) else tuple(map(str, command))


def _environment(told: Any) -> dict[str, str]:
    if not told:
        return {}
    pairs = (
        told.items() if isinstance(told, dict) else (str(each).partition("=")[::2] for each in told)
    )
    return {str(name): "" if value is None else str(value) for name, value in pairs}


def pointed(environment: Mapping[str, str], services: tuple[Composed, ...]) -> dict[str, str]:
    """Return variables in which addresses of brokers and servers are placeholders: ``{bootstrap}``,
    ``{db.port}``.

    The container of a stage uses this machine's network, where the service names of compose do not
    resolve.
    """
    return {name: _pointed(value, services) for name, value in environment.items()}


def _pointed(value: str, services: tuple[Composed, ...]) -> str:
    brokers = "|".join(re.escape(each.name) for each in services if each.kind == "broker")
    found = (
        re.sub(rf"\b(?:{brokers}):\d+(?:,(?:{brokers}):\d+)*", "{bootstrap}", value)
        if brokers
        else value
    )
    for service in (each for each in services if each.kind == "server"):
        found = re.sub(
            rf"\b{re.escape(service.name)}:\d+", f"127.0.0.1:{{{safe(service.name)}.port}}", found
        )
    return found


def command_at_port(service: Composed) -> str:
    """Return the command that starts a server on a port that lostack chooses; the service's own
    command if none is known.
    """
    known = next(
        (command for name, command in SERVERS.items() if name in f"{service.image} {service.name}"),
        "",
    )
    return known.replace("{port}", f"{{{safe(service.name)}.port}}") or shlex.join(service.command)


def safe(name: str) -> str:
    """Return a name that a [[service]] may have.

    >>> safe("Schema-Registry")
    'schema_registry'
    """
    return re.sub(r"[^a-z0-9_]", "_", name.lower()).lstrip("_0123456789") or "service"
