"""Make the root file system of a container image from files of this machine, for machines without
an image registry.

A program is added with the shared libraries that its loader would take, and a folder with those of
every library in it. The fingerprint depends only on the content: on names, sizes and times of
files, and on written texts.
"""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.util
import io
import os
import py_compile
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")
ASK_WITHIN_S: Final = 60.0
UNCHECKED: Final = py_compile.PycInvalidationMode.UNCHECKED_HASH
ACCOUNTS: Final = "root:x:0:0:root:/root:/bin/sh\nappuser:x:1000:1000::/home/appuser:/bin/sh\n"
GROUPS: Final = "root:x:0:\nappuser:x:1000:\n"
TOOLS: Final = (
    "sh",
    "bash",
    "cat",
    "chmod",
    "cp",
    "df",
    "env",
    "grep",
    "head",
    "id",
    "ls",
    "mkdir",
    "ps",
    "rm",
    "sed",
    "sleep",
    "tail",
    "touch",
)
"""Tools that a user needs to look around in a container, and that an image's scripts need."""


@dataclass(frozen=True, slots=True)
class _Entry:
    content: Path | bytes | None
    """An entry of the file system: a file of this machine, a text, or a folder."""
    mode: int
    owner: int = 0


@dataclass
class Rootfs:
    """The content of the image: absolute path → the source of its content."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    _linked: set[Path] = field(default_factory=set)
    _modules: dict[str, Path] = field(default_factory=dict)

    def folder(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        """Add a folder."""
        self.entries[path] = _Entry(None, mode, owner)

    def text(self, path: str, content: str, mode: int = 0o644, owner: int = 0) -> None:
        """Add a file with the given text."""
        self.entries[path] = _Entry(content.encode(), mode, owner)

    def data(self, path: str, content: bytes) -> None:
        """Add a file with the given bytes."""
        self.entries[path] = _Entry(content, 0o644)

    def file(self, path: str, source: Path) -> None:
        """Add a copy of a file; links are followed."""
        self.entries[path] = _Entry(source, stat.S_IMODE(source.stat().st_mode) | 0o444)

    def python(self, path: str, source: Path) -> None:
        """Add a Python module and its compiled form, so that it is not compiled at every start."""
        self.text(path, source.read_text(encoding="utf-8"))
        self._modules[path] = source

    def tree(self, path: str, source: Path, without: Iterable[str] = ()) -> None:
        """Add a copy of a folder; links are followed. ``without``: globs (of a path below it, or a
        name) that are left out.
        """
        patterns = tuple(without)
        libraries = []
        for base, folders, names in os.walk(source, followlinks=True):
            below = Path(base).relative_to(source)
            folders[:] = [name for name in folders if not _fits(below / name, patterns)]
            self.folder(str(Path(path) / below))
            for name in names:
                file = Path(base, name)
                if not _fits(below / name, patterns) and file.is_file():
                    self.file(str(Path(path) / below / name), file)
                    if ".so" in file.suffixes or below.name == "bin":
                        libraries.append(file)
        self.bring_libraries(libraries, source.resolve())

    def program(self, source: Path, path: str | None = None) -> None:
        """Add a copy of a program, with the libraries to which it is linked."""
        self.file(path or str(source), source)
        self.bring_libraries([source.resolve()])

    def basics(self) -> None:
        """Add a shell, the usual tools, accounts, and a folder for temporary files."""
        self.text("/etc/passwd", ACCOUNTS)
        self.text("/etc/group", GROUPS)
        self.text("/etc/nsswitch.conf", "hosts: files dns\n")
        self.folder("/tmp", 0o1777)  # noqa: S108 - inside the image
        self.folder("/home/appuser", 0o777, 1000)
        for name in TOOLS:
            if found := shutil.which(name):
                self.program(Path(found), f"/bin/{name}")

    def fingerprint(self) -> str:
        """Sixteen hex digits that change with the content."""
        sum_ = hashlib.sha256()
        for path, entry in sorted(self.entries.items()):
            if isinstance(entry.content, Path):
                seen = entry.content.stat()
                what = f"{seen.st_size}/{seen.st_mtime_ns}"
            else:
                what = hashlib.sha256(entry.content or b"").hexdigest()
            sum_.update(f"{path} {entry.mode:o} {entry.owner} {what}\n".encode())
        if self._modules:
            sum_.update(importlib.util.MAGIC_NUMBER)
        return sum_.hexdigest()[:16]

    def write(self, target: IO[bytes]) -> None:
        """Write the archive (tar).

        Raises:
            EnvironmentFailure: a file cannot be read.
        """
        try:
            with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for path, entry in sorted(
                    [*self.entries.items(), *self._compiled()], key=itemgetter(0)
                ):
                    _add(archive, path.lstrip("/"), entry)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot make an image: {error.filename}: {error.strerror}"
            ) from error

    def _compiled(self) -> Iterable[tuple[str, _Entry]]:
        with tempfile.TemporaryDirectory() as folder:
            for path, source in self._modules.items():
                made = py_compile.compile(
                    str(source),
                    f"{folder}/c",
                    path,
                    invalidation_mode=UNCHECKED,
                    doraise=False,
                    quiet=2,
                )
                if made is not None:
                    yield (
                        importlib.util.cache_from_source(path),
                        _Entry(Path(made).read_bytes(), 0o644),
                    )

    def bring_libraries(self, linked: Iterable[Path], home: Path | None = None) -> None:
        """Add the libraries to which these files are linked, except those in the folder ``home``
        they came with.
        """
        new = [path for path in linked if path not in self._linked]
        self._linked |= set(new)
        if not new:
            return
        found = subprocess.run(
            ["ldd", *new], capture_output=True, text=True, timeout=ASK_WITHIN_S, check=False
        ).stdout
        for library in sorted(
            {os.path.normpath(name) for name in LIBRARY.findall(found)} - self.entries.keys()
        ):
            if home is None or home not in Path(library).resolve().parents:
                self.file(library, Path(library))


def _fits(path: Path, patterns: tuple[str, ...]) -> bool:
    return any(
        fnmatch.fnmatchcase(str(path), pattern) or fnmatch.fnmatchcase(path.name, pattern)
        for pattern in patterns
    )


def _add(archive: tarfile.TarFile, name: str, entry: _Entry) -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid = entry.mode, entry.owner, entry.owner
    if entry.content is None:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif isinstance(entry.content, bytes):
        info.size = len(entry.content)
        archive.addfile(info, io.BytesIO(entry.content))
    else:
        with entry.content.open("rb") as file:
            seen = os.fstat(file.fileno())
            info.size, info.mtime = seen.st_size, int(seen.st_mtime)
            archive.addfile(info, file)
