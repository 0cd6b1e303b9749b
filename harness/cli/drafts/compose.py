"""The services of a docker-compose file: which of them are brokers, which databases, and which
could be stages.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import yaml

from harness.model.safe_files import read_named
from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_BYTES: Final = 1 << 20
"""The largest compose file that is read."""
MOST_VALUES: Final = 100_000
"""The most values that it may have, each alias counted as what it stands for."""
FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
BROKERS = frozenset({"kafka", "redpanda", "activemq", "artemis", "pulsar"})
OF_BROKERS = frozenset({"cp", "server", "native", "enterprise", "classic", "all", "local"})
"""What else may stand in the name of a broker's image: ``cp-kafka``, ``activemq-classic``."""
EVIDENCE = re.compile(
    r"KAFKA_(CFG_)?(ADVERTISED_LISTENERS|LISTENERS|PROCESS_ROLES|ZOOKEEPER_CONNECT|(NODE|BROKER)_ID)"
)
"""Variables that only a broker of Kafka has."""
ERRAND = re.compile(r"\bkafka-(topics|configs|acls|console-\w+)\b|\bcub\b")
"""A command in a broker's image that does something once, as to create topics."""
BESIDE = re.compile(
    r"ui|exporter|manager|admin|console|commander|express|insight|monitor|lag|burrow|kafdrop|akhq"
    r"|kowl|prometheus|grafana|pgadmin|adminer|zookeeper|toolbox"
)
"""A word in the name of an image that only looks at others, or that lostack replaces."""
PROGRAM = re.compile(r"worker|consumer|producer|processor|service|app|api|job|connect|sink|source")
"""A word in the name of an image that works with a server, and is none."""
SERVERS = {
    "postgres": "postgres -p {port}",
    "postgresql": "postgres -p {port}",
    "postgis": "postgres -p {port}",
    "timescaledb": "postgres -p {port}",
    "mysql": "mysqld --port={port}",
    "mariadb": "mariadbd --port={port}",
    "mongo": "mongod --port {port}",
    "mongodb": "mongod --port {port}",
    "redis": "redis-server --port {port}",
    "valkey": "valkey-server --port {port}",
    "registry": "",
    "elasticsearch": "",
    "minio": "",
}
"""Servers, by a word of their images' names, and the command that starts each on a given port
(empty: none is known).
"""
_PORT = re.compile(r"(\d+)(?:/tcp)?$")


@dataclass(frozen=True, slots=True)
class Composed:
    """One service. ``kind``: broker, server, program, or beside (no part of the pipeline).
    ``port``: the port it listens on. ``build``: the folder of its Dockerfile; ``None``: there is
    none, or more is said of how it is built.
    """

    name: str
    kind: str
    image: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    build: Path | None = None

    def made(self, at: Path) -> tuple[str, str]:
        """Return its image, or else the folder that it is built from as a path from ``at``."""
        return (self.image, "") if self.build is None else ("", os.path.relpath(self.build, at))


def read_compose(file: Path) -> tuple[Composed, ...]:
    """Return the services of a compose file.

    Raises:
        DeclarationError: the file cannot be read, or has no services; one line that names it.
    """
    try:
        data = yaml.safe_load(read_named(file, MOST_BYTES))
        _check_size(data)
        services = data["services"]
        return tuple(
            _service(str(name), told or {}, file.resolve().parent)
            for name, told in services.items()
        )
    except OSError as error:
        raise DeclarationError(f"cannot read {file}: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise DeclarationError(
            f"{file} is not a docker-compose file: services, or one of them, is not a table"
        ) from error
    except RecursionError as error:
        raise DeclarationError(f"{file} is nested too deep for a docker-compose file") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DeclarationError(
            f"{file} is not a docker-compose file with services: "
            f"{' '.join(str(error).split())[:120]}"
        ) from error


def _check_size(data: object) -> None:
    """Raise ValueError if a document has too many values, each alias counted as what it stands
    for.
    """
    left, seen = [data], 0
    while left and seen <= MOST_VALUES:
        value = left.pop()
        seen += 1
        if isinstance(value, dict):
            left.extend(islice(value.values(), MOST_VALUES))
        elif isinstance(value, list):
            left.extend(islice(value, MOST_VALUES))
    if seen > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values, those of its aliases counted")


def _service(name: str, told: Mapping[str, Any], folder: Path) -> Composed:
    image = str(told.get("image") or "")
    ports = [
        match[1] for port in told.get("ports", ()) if (match := _PORT.search(str(_target(port))))
    ]
    environment = _environment(told.get("environment"))
    project = folder.name
    started = " ".join((*_words(told.get("entrypoint")), *_words(told.get("command"))))
    return Composed(
        name=name,
        kind=_kind(image or name, environment, started),
        image=image or f"{re.sub(r'[^a-z0-9_-]', '', project.lower())}-{name}",
        command=_words(told.get("command")),
        environment=environment,
        port=int(ports[0]) if ports else 0,
        build=_folder(told.get("build"), folder),
    )


def _folder(build: object, folder: Path) -> Path | None:
    if isinstance(build, dict) and build.keys() == {"context"}:
        build = build["context"]
    plain = isinstance(build, str) and not re.match(r"\w+://|git@|.*\$", build)
    return folder / str(build) if plain else None


def _target(port: object) -> object:
    return port.get("target") if isinstance(port, dict) else port


def _kind(image: str, environment: Iterable[str] = (), started: str = "") -> str:
    """Say what a service is: by the words in its image's name, the names of its variables, and the
    command that starts it.

    >>> _kind("postgres:16"), _kind("provectuslabs/kafka-ui"), _kind("debezium/connect")
    ('server', 'beside', 'program')
    >>> _kind("confluentinc/cp-kafka:7.6"), _kind("acme/streams", ["KAFKA_PROCESS_ROLES"])
    ('broker', 'broker')
    """
    words = _parts(image)
    if any(EVIDENCE.fullmatch(name) for name in environment):
        return "broker"
    if any(map(BESIDE.fullmatch, words)):
        return "beside"
    if any(map(PROGRAM.fullmatch, words)):
        return "program"
    if words & BROKERS and words <= BROKERS | OF_BROKERS:
        return "beside" if ERRAND.search(started) else "broker"
    return "server" if words & SERVERS.keys() else "program"


def _parts(image: str) -> set[str]:
    """Return the words in the name of an image, without its registry, owner and version."""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return set(re.findall(r"[a-z]+", name.lower()))


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
    words = _parts(service.image)
    known = next((command for name, command in SERVERS.items() if name in words), "")
    return known.replace("{port}", f"{{{safe(service.name)}.port}}") or shlex.join(service.command)


def safe(name: str) -> str:
    """Return a name that a [[service]] may have.

    >>> safe("Schema-Registry")
    'schema_registry'
    """
    return re.sub(r"[^a-z0-9_]", "_", name.lower()).lstrip("_0123456789") or "service"
