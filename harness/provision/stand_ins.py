"""What the stand-ins for images are made of: files of this machine, and the locked artefacts."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.failpoints import ensure_failpoints
from harness.provision.inside_pyspark import pyspark_home
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java
from harness.provision.kafka import VERSION as KAFKA
from harness.provision.postgres import ensure_postgres
from harness.provision.rootfs import ACCOUNTS, GROUPS, Rootfs
from harness.provision.spark import ensure_spark
from harness.provision.toxiproxy import ensure_toxiproxy
from harness.runtimes.interface import JAVA_IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

POSTGRES: Final = "17.6"
"""The version of the official image that a stand-in of PostgreSQL stands for."""
PARTS: Final = Path(__file__).with_name("image")
DATABASE_PACKAGES: Final = ("psycopg", "psycopg-binary", "typing-extensions")
"""The packages of programs that write into PostgreSQL."""
PACKAGES: Final = (
    "kafka-python",
    "lz4",
    "cramjam",
    "python-snappy",
    "zstandard",
    "confluent-kafka",
    "stomp.py",
    "websocket-client",
    "google-crc32c",
    "msgspec",
    *DATABASE_PACKAGES,
)
"""The packages that programs in containers need besides this one."""
NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
NO_STDLIB: Final = (
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "ensurepip",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "config-3*",
    "pydoc_data",
    "*.a",
)
SPARK_PROGRAMS: Final = ("spark-submit", "spark-class", "load-spark-env.sh", "find-spark-home")
NO_PYSPARK: Final = ("jars", "bin", "sbin", "examples", "data", "licenses", "python", "tests")
"""The parts of PySpark's folder that go elsewhere in the image, or are left out."""
KAFKA_TOOLS: Final = ("storage", "run-class")
"""Those of Kafka's command-line tools whose classes are in the locked jars."""
NO_POSTGRES: Final = ("bitcode", "llvmjit*", "pgxs", "man", "locale", "*.a")
UTC: Final = Path("/usr/share/zoneinfo/Etc/UTC")
"""The one time zone of a database cluster in a container."""
LIBC: Final = "libc.so.6"
PARTS_OF_LIBC: Final = ("libpthread.so.0", "librt.so.1", "libdl.so.2")
"""Libraries that used to be separate from libc, and that native libraries inside jars (such as
RocksDB's) still link to.
"""
NO_JAVA: Final = (
    "jmods",
    "src.zip",
    "man",
    "demo",
    "include",
    "*.diz",
    "ct.sym",
    "legal",
    "docs",
    "sample",
)


def _java(rootfs: Rootfs, cache: Path, say: Callable[[str], None]) -> None:
    home = find_java(cache, say).path.resolve().parents[1]
    rootfs.tree("/opt/java", home, NO_JAVA)
    for libc in [Path(each) for each in rootfs.entries if Path(each).name == LIBC]:
        for part in (libc.with_name(name) for name in PARTS_OF_LIBC):
            if part.exists():
                rootfs.file(str(part), part)


def _kafka(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    rootfs = Rootfs()
    rootfs.basics()
    _java(rootfs, cache, say)
    jar_set = read_jar_set(f"kafka-{KAFKA}")
    directory = ensure_jars(jar_set, cache=cache, java=find_java(cache, say), say=say)
    for jar in sorted(jar_set.sums):
        rootfs.file(f"/opt/kafka/libs/{jar}", directory / jar)
    for folder in (
        "/opt/kafka/config",
        "/mnt/shared/config",
        "/var/lib/kafka/data",
        "/etc/kafka/secrets",
    ):
        rootfs.folder(folder, 0o775, 1000)
    rootfs.text("/etc/kafka/docker/run", (PARTS / "kafka-run.sh").read_text(), 0o755)
    rootfs.text("/etc/kafka/docker/server.properties", (PARTS / "server.properties").read_text())
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        rootfs.text(f"/etc/kafka/docker/{name}", (PARTS / "log4j2.yaml").read_text())
    tool = (PARTS / "kafka-tool.sh").read_text()
    for name in KAFKA_TOOLS:
        rootfs.text(f"/opt/kafka/bin/kafka-{name}.sh", tool, 0o755)
    return rootfs, [
        "ENV PATH=/opt/java/bin:/opt/kafka/bin:/usr/bin:/bin",
        "ENV JAVA_HOME=/opt/java",
        "USER appuser",
        "EXPOSE 9092",
        'VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]',
        'CMD ["/etc/kafka/docker/run"]',
    ]


def _toxiproxy(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    rootfs = Rootfs()
    rootfs.basics()
    rootfs.program(ensure_toxiproxy(cache, say), "/toxiproxy")
    rootfs.text("/toxiproxy-cli", (PARTS / "toxiproxy-cli.sh").read_text(), 0o755)
    return rootfs, ["EXPOSE 8474", 'ENTRYPOINT ["/toxiproxy"]', 'CMD ["-host=0.0.0.0"]']


def _spark(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    """Return the files of the Spark image: Spark's own layout, filled from PySpark."""
    rootfs = Rootfs()
    rootfs.basics()
    for name in ("env", "dirname", "tty", "true"):
        rootfs.program(Path(shutil.which(name) or f"/usr/bin/{name}"), f"/usr/bin/{name}")
    _java(rootfs, cache, say)
    _python(rootfs)
    home = pyspark_home()
    rootfs.tree("/opt/spark/jars", home / "jars")
    for name in SPARK_PROGRAMS:
        rootfs.file(f"/opt/spark/bin/{name}", home / "bin" / name)
    for each in ("pyspark", "py4j"):
        package = home if each == "pyspark" else Path(importlib.import_module(each).__path__[0])
        for file in sorted(
            path
            for path in package.rglob("*")
            if path.is_file() and path.suffix not in {".pyc", ".pyi"}
        ):
            if not set(file.relative_to(package).parts[:-1]) & set(NO_PYSPARK):
                (rootfs.python if file.suffix == ".py" else rootfs.file)(
                    f"/opt/spark/python/{each}/{file.relative_to(package)}", file
                )
    rootfs.folder("/opt/spark/work", 0o777)
    return rootfs, [
        "ENV PATH=/opt/java/bin:/opt/spark/bin:/usr/bin:/bin",
        "ENV JAVA_HOME=/opt/java",
        "ENV SPARK_HOME=/opt/spark",
        f"ENV PYTHONHOME={sys.base_prefix}",
        "ENV PYTHONPATH=/opt/spark/python",
        "ENV PYTHONDONTWRITEBYTECODE=1",
        "WORKDIR /opt/spark/work",
        "USER appuser",
        'CMD ["/opt/spark/bin/spark-class"]',
    ]


def driver_jars(say: Callable[[str], None]) -> tuple[Path, ...]:
    """Return the jars for spark-submit: the Kafka connector, and the failpoints in the JVM."""
    install = ensure_spark(say)
    return (*install.connector, ensure_failpoints(install))


def _driver(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    """Return the files of the driver image on top of Spark: the programs and their jars."""
    del cache
    rootfs = Rootfs()
    _packages(rootfs, DATABASE_PACKAGES)
    _ours(rootfs)
    for jar in driver_jars(say):
        rootfs.file(f"/opt/lostack/jars/{jar.name}", jar)
    return rootfs, ["ENV PYTHONPATH=/opt/lostack:/opt/spark/python"]


def _python(rootfs: Rootfs) -> None:
    stdlib = Path(sysconfig.get_path("stdlib"))
    rootfs.tree(str(stdlib), stdlib, NO_STDLIB)
    rootfs.program(Path(sys.executable).resolve(), "/usr/bin/python3")


def _ours(rootfs: Rootfs) -> None:
    """Add lostack's modules and data files: frame descriptions, checksums of jars, templates.
    Scenarios are not included.
    """
    _home(rootfs, Path(__file__).parents[1], "harness")


def _home(rootfs: Rootfs, home: Path, name: str) -> None:
    for file in sorted(
        path for path in home.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ):
        (rootfs.python if file.suffix == ".py" else rootfs.file)(
            f"/opt/lostack/{name}/{file.relative_to(home)}", file
        )


def _packages(rootfs: Rootfs, names: Iterable[str]) -> None:
    files = _package_files(names)
    for name, path in files:
        (rootfs.python if path.suffix == ".py" else rootfs.file)(f"/opt/lostack/{name}", path)
    rootfs.bring_libraries([path for _, path in files if ".so" in path.suffixes])


def _postgres(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    """Return the files of PostgreSQL's stand-in: the installed server, whose version may differ
    from the official image's.
    """
    del cache, say
    try:
        programs = ensure_postgres().programs.resolve()
        said = subprocess.run(
            [programs / "pg_config", "--bindir", "--pkglibdir", "--sharedir"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (EnvironmentFailure, OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentFailure(
            f"no stand-in for postgres:{POSTGRES} can be built from this machine's server: {error}"
        ) from error
    rootfs = Rootfs()
    rootfs.basics()
    rootfs.text("/etc/passwd", f"{ACCOUNTS}postgres:x:999:999::/var/lib/postgresql:/bin/sh\n")
    rootfs.text("/etc/group", f"{GROUPS}postgres:x:999:\n")
    for name in ("chown", "setpriv"):
        if found := shutil.which(name):
            rootfs.program(Path(found), f"/bin/{name}")
    for folder in said.split():
        rootfs.tree(folder, Path(folder), NO_POSTGRES)
    rootfs.bring_libraries(sorted(programs.iterdir()))
    if UTC.exists():
        rootfs.file(str(UTC), UTC)
    rootfs.folder("/var/run/postgresql", 0o1777)
    rootfs.folder("/var/lib/postgresql", 0o1777, 999)
    rootfs.folder("/var/lib/postgresql/data", 0o1777, 999)
    rootfs.text(
        "/usr/local/bin/docker-entrypoint.sh", (PARTS / "postgres-run.sh").read_text(), 0o755
    )
    return rootfs, [
        f"ENV PATH=/usr/local/bin:{programs}:/usr/bin:/bin",
        "ENV PGDATA=/var/lib/postgresql/data",
        'VOLUME ["/var/lib/postgresql/data"]',
        "EXPOSE 5432",
        'ENTRYPOINT ["docker-entrypoint.sh"]',
        'CMD ["postgres"]',
    ]


def _lostack(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    del cache, say
    rootfs = Rootfs()
    rootfs.basics()
    _python(rootfs)
    _packages(rootfs, PACKAGES)
    _ours(rootfs)
    home = Path(sys.base_prefix)
    return rootfs, [
        f"ENV PYTHONHOME={home}",
        "ENV PYTHONPATH=/opt/lostack",
        "ENV PATH=/usr/bin:/bin",
        "ENV PYTHONDONTWRITEBYTECODE=1",
        "USER appuser",
        'CMD ["python3", "-m", "harness.wire", "--help"]',
    ]


def _with_java(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    """Return the files of the Java image on top of lostack's programs."""
    rootfs = Rootfs()
    _java(rootfs, cache, say)
    return rootfs, ["ENV PATH=/opt/java/bin:/usr/bin:/bin", "ENV JAVA_HOME=/opt/java"]


def _matrix(cache: Path, say: Callable[[str], None]) -> tuple[Rootfs, list[str]]:
    """Return the image of all of lostack, with Java and Kafka's jars. It runs Kafka's cells in
    runtime ``process`` inside.
    """
    rootfs, changes = _lostack(cache, say)
    _java(rootfs, cache, say)
    files = _package_files(_needed_by("lostack"))
    for name, path in files:
        rootfs.file(f"/opt/lostack/{name}", path)
    rootfs.bring_libraries([path for _, path in files if ".so" in path.suffixes])
    _home(
        rootfs, Path(__file__).parents[1] / "scenarios", "harness/scenarios"
    )  # in the repository a link
    jar_set = read_jar_set(f"kafka-{KAFKA}")
    directory = ensure_jars(jar_set, cache=cache, java=find_java(cache, say), say=say)
    for folder in ("/opt/cache", "/opt/cache/jars", f"/opt/cache/jars/{jar_set.name}"):
        rootfs.folder(folder, 0o777)
    for jar in sorted(jar_set.sums):
        rootfs.file(f"/opt/cache/jars/{jar_set.name}/{jar}", directory / jar)
    rootfs.folder("/reports", 0o777)
    return rootfs, [
        *changes[:-2],
        "ENV PATH=/opt/java/bin:/usr/bin:/bin",
        "ENV LOSTACK_CACHE=/opt/cache",
        "WORKDIR /",
        "USER appuser",
        'ENTRYPOINT ["python3", "-m", "harness.cli"]',
        'CMD ["run", "--system", "kafka", "--reports", "/reports"]',
    ]


def _needed_by(name: str) -> list[str]:
    """Return the installed packages that a package needs, directly or not, except Spark, which
    Kafka's cells do not need.
    """
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop().lower().replace("_", "-")
        if each in found or each == "pyspark":
            continue
        found[each] = None
        try:
            wants = importlib.metadata.requires(each) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        waiting += [
            match[0] for want in wants if "extra ==" not in want and (match := NAME.match(want))
        ]
    return [each for each in found if each != name]


def _package_files(names: Iterable[str]) -> list[tuple[str, Path]]:
    """Return the files of installed packages: each with its path below site-packages, and its path
    on this machine.
    """
    found = []
    there = {
        str(each.name).lower().replace("_", "-") for each in importlib.metadata.distributions()
    }
    for name in sorted(
        there & set(names)
    ):  # clients that are not installed are missing inside as well
        for file in importlib.metadata.files(name) or ():
            path = Path(str(file.locate()))
            if (
                ".." not in file.parts
                and path.is_file()
                and path.suffix not in {".pyi", ".pyc", ".h"}
            ):
                found.append((str(file), path))
    return found


RECIPES: Final[Mapping[str, Callable[[Path, Callable[[str], None]], tuple[Rootfs, list[str]]]]] = {
    "kafka": _kafka,
    "toxiproxy": _toxiproxy,
    "spark": _spark,
    "lostack": _lostack,
    "driver": _driver,
    "matrix": _matrix,
    "postgres": _postgres,
    JAVA_IMAGE: _with_java,
}
"""The function that makes each stand-in: it returns the files, and the image's settings (as lines
of a Dockerfile).
"""
