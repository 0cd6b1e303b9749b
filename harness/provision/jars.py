"""Sets of jars, such as Kafka 4.3.0 with its dependencies: fetched by the Ivy inside PySpark, or
without PySpark by HTTPS, each checked by its sha256.

A set is a file ``<name>.sha256`` beside this module, in the format of ``sha256sum``, with its
modules in front::

    # <organisation> <module> <revision>

and a fourth word if the module's file in the repository does not end with ``.jar`` (such as
``nar``; lostack stores it as a jar), and a fifth if it has a classifier.

A list names the module of each of its jars. These are fetched alone, without their dependencies,
because the dependencies were resolved once, when the list was made. Only the jars are fetched:
reading every module's pom took four fifths of the time. A set whose list names one module only is
resolved by Ivy: the module is fetched with its dependencies.

To add a set, resolve it once, read the list, and commit it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from packaging.version import Version

from harness.model.extras import lacks
from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root, fill, locked, need_space, original
from harness.provision.central import MIRROR, Module, fetch_listed
from harness.provision.inside_pyspark import jars_of_pyspark
from harness.provision.network import argument_file, proxy_options, why_failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.provision.java import Java

LISTS: Final = Path(__file__).parent
STAMP: Final = ".verified.json"
WORDS: Final = (3, 4, 5)
"""How many words a module's line may have."""
MODULES: Final = "modules.xml"
SETTINGS: Final = "settings.xml"
OPTIONS: Final = "java.options"
MOST_CAUSES: Final = 3
MOST_NAMES: Final = 3
FETCH_WITHIN_S: Final = 900.0
SAY_EVERY_S: Final = 3.0
NEEDED_MB: Final = 200
"""Space that is needed: twice the jars (Ivy keeps its own copy while it works), and some more."""
SETTINGS_VARIABLE: Final = "LOSTACK_IVY_SETTINGS"
"""The environment variable that names an Ivy settings file, for users who fetch jars
from a mirror.
"""
JARS_ALONE: Final = (
    '<ivysettings><settings defaultResolver="central"/><resolvers>'
    '<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" '
    'checksums=""/>'
    "</resolvers></ivysettings>"
)
"""Ivy settings that fetch only jars from Maven Central. Checksum files are not needed: the sums are
in lostack's lists.
"""
MAVEN: Final = "http://ant.apache.org/ivy/maven"
"""The namespace of what only Maven's modules have."""
FOUND: Final = re.compile(r"^\s+found \S+#")
DOWNLOADED: Final = re.compile(r"\[SUCCESSFUL \].*\.jar")
SIZE: Final = re.compile(r"\((\d+)kB\)$")
UNRESOLVED: Final = re.compile(r"^\s*:: (\S+#\S+;\S+?)(?:!\S+)?(?:: .*)?$")


@dataclass(frozen=True, slots=True)
class JarSet:
    """The modules to fetch, and the files that must result: file name → sha256 in hex."""

    name: str
    modules: tuple[Module, ...]
    sums: Mapping[str, str]

    @property
    def listed(self) -> bool:
        """Whether the list names every jar's module, so that dependencies need not be resolved."""
        return len(self.modules) == len(self.sums)


@dataclass(frozen=True, slots=True)
class Check:
    """How a directory differs from its list. It is false if the directory is complete and
    undamaged.
    """

    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.damaged or self.unlisted)

    def __str__(self) -> str:
        named = (
            ("missing", self.missing),
            ("damaged", self.damaged),
            ("not in the list", self.unlisted),
        )
        return (
            "; ".join(f"{what}: {_shortened(names)}" for what, names in named if names) or "sound"
        )


def read_jar_set(name: str, lists: Path = LISTS) -> JarSet:
    """Read a committed list.

    Raises:
        EnvironmentFailure: there is no list of that name, or it is malformed.
    """
    path = lists / f"{name}.sha256"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in lists.glob("*.sha256")))
        raise EnvironmentFailure(f"no list of jars named {name}; there are: {known}")
    lines = path.read_text().splitlines()
    modules = [line.removeprefix("#").split() for line in lines if line.startswith("#")]
    sums = {
        jar: digest
        for digest, _, jar in (line.partition("  ") for line in lines if not line.startswith("#"))
    }
    if not modules or not sums or "" in sums or any(len(words) not in WORDS for words in modules):
        raise EnvironmentFailure(
            f"{path} is no list of jars: write '# organisation module revision', then lines of "
            "sha256sum"
        )
    return JarSet(name, tuple(Module(*words) for words in modules), sums)


def check_jars(directory: Path, jar_set: JarSet) -> Check:
    """Compare every jar with its sha256 (0.1 s for 44 MB)."""
    there = {path.name for path in directory.glob("*.jar")}
    return Check(
        missing=tuple(sorted(jar_set.sums.keys() - there)),
        damaged=tuple(
            sorted(
                jar
                for jar in there & jar_set.sums.keys()
                if sha256(directory / jar) != jar_set.sums[jar]
            )
        ),
        unlisted=tuple(sorted(there - jar_set.sums.keys())),
    )


def sha256(path: Path) -> str:
    """Return the sha256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_stamped(directory: Path, jar_set: JarSet) -> bool:
    """Return whether no file has changed, by size and time, since the checksums were last compared
    with this list.
    """
    try:
        return bool(json.loads((directory / STAMP).read_text()) == _stamp(directory, jar_set))
    except (OSError, ValueError):
        return False


def stamp(directory: Path, jar_set: JarSet) -> None:
    """Record that all checksums were correct, with the files' sizes and times."""
    with suppress(OSError):  # in a read-only cache they are compared at each start: 0.1 s
        (directory / STAMP).write_text(json.dumps(_stamp(directory, jar_set)))


def _stamp(directory: Path, jar_set: JarSet) -> dict[str, object]:
    stats = {path.name: path.stat() for path in sorted(directory.glob("*.jar"))}
    return {
        "list": hashlib.sha256(json.dumps(sorted(jar_set.sums.items())).encode()).hexdigest(),
        "jars": {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()},
    }


def ensure_jars(
    jar_set: JarSet,
    *,
    cache: Path,
    java: Java,
    say: Callable[[str], None],
    retrieve: Callable[[JarSet, Path, Path, Java, Callable[[str], None]], None] | None = None,
) -> Path:
    """Return the directory that holds exactly the jars of the set, all of them checked.

    Missing or damaged jars are fetched, at most twice.

    Raises:
        EnvironmentFailure: the jars cannot be fetched, differ from the list after two attempts, or
            the directory holds others.
    """
    directory = cache / "jars" / jar_set.name
    if is_stamped(directory, jar_set):
        return original(directory)
    directory.parent.mkdir(exist_ok=True)
    with locked(directory, say):
        found = check_jars(directory, jar_set)
        if found.unlisted:
            raise EnvironmentFailure(
                f"{directory} holds jars that are not in its list ({found}): remove them"
            )
        if found:
            if directory.exists():
                say(f"{jar_set.name}: {found}; fetching again")
            ivy = directory.parent / f".{jar_set.name}.ivy"
            _fetch(
                jar_set,
                directory,
                lambda part: (retrieve or retrieve_jars)(jar_set, part, ivy, java, say),
                say,
            )
            shutil.rmtree(ivy, ignore_errors=True)
        stamp(directory, jar_set)
    return original(directory)


def jars_of(jar_set: JarSet, java: Java, say: Callable[[str], None]) -> tuple[Path, ...]:
    """Return the jars of a set in the order of their names, all of them checked; fetch those that
    the cache does not have.

    Raises:
        EnvironmentFailure: see :func:`ensure_jars`.
    """
    folder = ensure_jars(jar_set, cache=cache_root(), java=java, say=say)
    return tuple(folder / name for name in sorted(jar_set.sums))


def versions_of(name: str, lists: Path = LISTS) -> tuple[str, ...]:
    """Return the versions of a set whose checksums are known, the oldest first."""
    files = lists.glob(f"{name}-[0-9]*.sha256")
    return tuple(sorted((file.stem.removeprefix(f"{name}-") for file in files), key=Version))


def name_and_version(jar_set: str) -> tuple[str, str]:
    """Split a set's name into what its jars are of, and their version (empty if it names none).

    >>> name_and_version("debezium-postgres-3.7.0.Final")
    ('debezium-postgres', '3.7.0.Final')
    """
    name, version = re.match(r"(.+?)(?:-(\d.*))?$", jar_set).groups("")  # type: ignore[union-attr]  # any name matches
    return name, version


def _fetch(
    jar_set: JarSet, directory: Path, retrieve: Callable[[Path], None], say: Callable[[str], None]
) -> None:
    """Fetch the whole set into ``directory``; if jars are damaged, fetch it a second time."""
    need_space(directory.parent, NEEDED_MB, jar_set.name)

    def make(part: Path) -> None:
        retrieve(part)
        if wrong := check_jars(part, jar_set):
            say(f"{jar_set.name}: the fetched jars differ from the list ({wrong}); fetching again")
            for jar in part.glob("*.jar"):
                jar.unlink()
            shutil.rmtree(directory.parent / f".{jar_set.name}.ivy", ignore_errors=True)
            retrieve(part)
            wrong = check_jars(part, jar_set)
        if wrong:
            raise EnvironmentFailure(
                f"{jar_set.name} was fetched twice and differs from the list: {wrong}"
            )

    fill(directory, make)
    size = sum(path.stat().st_size for path in directory.glob("*.jar"))
    say(f"{jar_set.name}: {len(jar_set.sums)} jars, {size / 1e6:.0f} MB, all checksums correct")


def retrieve_jars(
    jar_set: JarSet, target: Path, ivy: Path, java: Java, say: Callable[[str], None]
) -> None:
    """Fetch a set into ``target``: by HTTPS where the list names every module and a mirror is named
    or PySpark is not installed, else by Ivy.

    Raises:
        EnvironmentFailure: the jars cannot be fetched.
    """
    direct = os.environ.get(MIRROR) or lacks("spark")
    if jar_set.listed and direct and not os.environ.get(SETTINGS_VARIABLE):
        fetch_listed(jar_set.name, jar_set.modules, target, say)
    else:
        ivy_retrieve(jar_set, target, ivy, java, say)


# --- Ivy ------------------------------------------------------------------------------------------


def ivy_jar() -> Path:
    """Return the Ivy inside PySpark.

    Raises:
        EnvironmentFailure: PySpark is not installed, or is not whole.
    """
    return jars_of_pyspark("Ivy, which resolves jars,", "ivy-*.jar")[0]


def ivy_module(jar_set: JarSet) -> str:
    """Return the XML that asks Ivy for the modules of a set: alone if all are listed, else with
    their dependencies.
    """
    kind = (
        'conf="default->master(default)" transitive="false"'
        if jar_set.listed
        else 'conf="default->default"'
    )
    wanted = "".join(_wanted(module, kind) for module in jar_set.modules)
    return (
        f'<ivy-module version="2.0" xmlns:m={quoteattr(MAVEN)}><info organisation="lostack" '
        'module="jars"/><configurations><conf '
        f'name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _wanted(module: Module, kind: str) -> str:
    organisation, name, revision, suffix, classifier = map(quoteattr, module)
    named = f" m:classifier={classifier}" if module.classifier else ""
    plain = module.kind == "jar" and not module.classifier
    other = "" if plain else f"<artifact name={name} type={suffix} ext={suffix}{named}/>"
    return f"<dependency org={organisation} name={name} rev={revision} {kind}>{other}</dependency>"


def ivy_command(target: Path, ivy: Path, java: Java, settings: str | None) -> list[str]:
    """Return the command that fetches the modules in ``ivy/modules.xml`` into ``target``. Ivy's own
    files go below ``ivy``.
    """
    return [
        str(java.path),
        f"@{ivy / OPTIONS}",
        f"-Duser.home={ivy}",  # Java takes the home from the password file, not from $HOME
        f"-Divy.home={ivy}",
        "-jar",
        str(ivy_jar()),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(ivy / "cache")),
        *("-confs", "default"),
        *("-ivy", str(ivy / MODULES)),
        *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def ivy_retrieve(
    jar_set: JarSet, target: Path, ivy: Path, java: Java, say: Callable[[str], None]
) -> None:
    """Fetch a set with Ivy into ``target``.

    Raises:
        EnvironmentFailure: Ivy fails, or takes more than 15 minutes.
    """
    ivy.mkdir(exist_ok=True)
    (ivy / MODULES).write_text(ivy_module(jar_set))
    settings = os.environ.get(SETTINGS_VARIABLE)
    if not settings and jar_set.listed:
        settings = str(ivy / SETTINGS)
        (ivy / SETTINGS).write_text(JARS_ALONE)
    (ivy / OPTIONS).unlink(missing_ok=True)
    (ivy / OPTIONS).touch(mode=0o600)  # a proxy may have a password, and all can read a command
    (ivy / OPTIONS).write_text(argument_file(proxy_options(os.environ)))
    command = ivy_command(target, ivy, java, settings)
    say(f"fetching {jar_set.name}: {len(jar_set.sums)} jars (a few seconds, once)")
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    watchdog = threading.Timer(FETCH_WITHIN_S, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        unresolved, causes = _follow(process.stdout or (), jar_set, java, say)
        status = process.wait()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
    if status != 0 or unresolved:
        raise EnvironmentFailure(_no_jars(jar_set, unresolved, causes, status))
    for other in {module.kind for module in jar_set.modules} - {"jar"}:
        for file in target.glob(f"*.{other}"):
            file.rename(file.with_suffix(".jar"))


def _follow(
    lines: Iterable[str], jar_set: JarSet, java: Java, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """Show progress from Ivy's output, at most every three seconds.

    Return the modules that Ivy could not find, and why it could not ask a server.
    """
    found = jars = kilobytes = 0
    unresolved: list[str] = []
    causes: list[str] = []
    said = time.monotonic()
    for line in lines:
        found += FOUND.search(line) is not None
        jars += DOWNLOADED.search(line) is not None
        kilobytes += sum(int(size) for size in SIZE.findall(line))
        if match := UNRESOLVED.search(line):
            unresolved.append(match.group(1))
        if because := why_failed(line.rstrip(), java.path):
            causes.append(because)
        if time.monotonic() >= said + SAY_EVERY_S:
            said = time.monotonic()
            state = (
                f"{jars} jars, {kilobytes / 1000:.0f} MB fetched" if jars else f"{found} resolved"
            )
            say(f"fetching {jar_set.name}: {state}, of {len(jar_set.sums)}")
    return unresolved, causes


def _no_jars(jar_set: JarSet, unresolved: Sequence[str], causes: Sequence[str], status: int) -> str:
    if causes:  # a jar that was not found says nothing about the repository then
        why = "; ".join(dict.fromkeys(causes[:MOST_CAUSES]))
        return f"cannot fetch the jars of {jar_set.name}: {why} (mirror: {SETTINGS_VARIABLE})"
    what = (
        f"; not found: {_shortened(unresolved)}"
        if unresolved
        else f" (Ivy ended with status {status})"
    )
    return (
        f"cannot fetch the jars of {jar_set.name}{what}; check the network, or name a mirror by "
        f"{SETTINGS_VARIABLE}"
    )


def _shortened(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
