"""Reads and writes files in a folder that somebody else may have made, such as a saved run from a
CI server.

Each function takes ``below``, a folder that the user has named, and ``name``, a path from there
(``cells/one/cell.json``). Links in ``below`` itself are followed, because the user chose them.
Below it:

- no symbolic link is followed, at no component of the path, and no path leads out;
- only regular files are read: a FIFO, a device or a socket is refused at once, and nothing waits
  for it;
- nothing larger than a limit is read into memory;
- a file is written under a name of its own that nobody can foresee, and then renamed.

Hard links are like any file. Somebody who can still write into the folder while lostack reads it is
not kept out: such a person can change the files themselves.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import stat
import tomllib
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Text = TypeVar("Text")
Value = TypeVar("Value")

MOST_BYTES: Final = 128 << 20
"""The largest file that is read whole, in bytes."""
CHUNK: Final = 1 << 20
"""How many bytes are read at once."""
DEEPEST: Final = 64
"""How deep values in JSON and TOML may be nested, and folders below a folder that is searched."""
LARGEST: Final = 1 << 63
"""No number in JSON or TOML is as large as this, in either direction."""

Name: TypeAlias = str | PurePath

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeFileError(OSError):
    """A path is not a plain file or folder below the folder that was named. ``strerror`` says what
    it is.
    """


# --- reading --------------------------------------------------------------------------------------


def read_bytes(below: Path, name: Name, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        UnsafeFileError: it is no plain file below the folder, or has more than ``most`` bytes.
        OSError: it cannot be read.
    """
    return b"".join(read_chunks(below, name, most))


def read_text(below: Path, name: Name, most: int = MOST_BYTES) -> str:
    """Return the content of a file as text. It fails like :func:`read_bytes`, or by
    ``UnicodeDecodeError``.
    """
    return read_bytes(below, name, most).decode()


def read_json(below: Path, name: Name) -> Any:
    """Return the value in a JSON file. It fails like :func:`read_bytes` and :func:`parse_json`."""
    return parse_json(read_bytes(below, name))


def read_chunks(below: Path, name: Name, most: int = MOST_BYTES) -> Iterator[bytes]:
    """Yield the content of a file piece by piece. It fails like :func:`read_bytes`."""
    with _opened(below, name) as fd:
        yield from _chunks(fd, Path(below, name), most)


def read_start(below: Path, name: Name, most: int) -> bytes:
    """Return the first ``most`` bytes of a file, or all if there are fewer. It fails like
    :func:`read_bytes`.
    """
    with _opened(below, name) as fd:
        return os.pread(fd, most, 0)


def read_end(below: Path, name: Name, most: int) -> bytes:
    """Return the last ``most`` bytes of a file, or all if there are fewer. It fails like
    :func:`read_bytes`.
    """
    with _opened(below, name) as fd:
        return os.pread(fd, most, max(0, os.fstat(fd).st_size - most))


def read_named(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file that the user has named. Links are followed, and only a regular
    file is read.

    Raises:
        UnsafeFileError: it is not a regular file, or has more than ``most`` bytes.
        OSError: it cannot be read.
    """
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check_regular(fd, file)
        return b"".join(_chunks(fd, file, most))
    finally:
        os.close(fd)


def _chunks(fd: int, file: Path, most: int) -> Iterator[bytes]:
    if os.fstat(fd).st_size > most:  # a hole of a terabyte takes no room on the disk
        raise _too_large(file, most)
    left = most
    while data := os.read(fd, CHUNK):
        left -= len(data)
        if left < 0:
            raise _too_large(file, most)
        yield data


def _too_large(file: Path, most: int) -> UnsafeFileError:
    return UnsafeFileError(
        errno.EFBIG, f"it is larger than {most:,} bytes, the most that lostack reads", str(file)
    )


# --- looking --------------------------------------------------------------------------------------


def exists(below: Path, name: Name) -> bool:
    """Whether there is anything of this name. A link counts, whatever it points to; behind a link
    there is nothing.
    """
    try:
        with _parent(below, name) as (folder, last):
            os.stat(last, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError, UnsafeFileError):
        return False
    return True


def is_file(below: Path, name: Name) -> bool:
    """Whether there is a regular file of this name, and no link on the way to it."""
    try:
        with _opened(below, name):
            return True
    except OSError:
        return False


def check_plain(below: Path, name: Name) -> None:
    """Check that a file or folder, if it is there, is a plain one: for those who hand its path to a
    library.

    Raises:
        UnsafeFileError: it is neither a regular file nor a folder, or a link is on the way to it.
    """
    try:
        with _parent(below, name) as (folder, last):
            mode = os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise _odd(Path(below, name), mode)


def folders(below: Path, name: Name = "") -> list[str]:
    """Return the names of the folders in a folder, sorted; none if it is not there.

    Raises:
        UnsafeFileError: the folder, or something on the way to it, is a link.
    """
    return [each for each, mode in _entries(below, name) if stat.S_ISDIR(mode)]


def links(below: Path, name: Name = "") -> list[str]:
    """Return the names of the symbolic links in a folder, sorted. It fails like :func:`folders`."""
    return [each for each, mode in _entries(below, name) if stat.S_ISLNK(mode)]


def names(below: Path, name: Name = "") -> list[str]:
    """Return the names of all that is in a folder, sorted. It fails like :func:`folders`."""
    return [each for each, _ in _entries(below, name)]


def files(below: Path, name: Name, wanted: Callable[[str], bool]) -> list[str]:
    """Return the paths (from ``below``) of all files below a folder whose names are wanted, sorted.

    Raises:
        UnsafeFileError: there is a link to a folder or to a wanted file, or a wanted file is not a
            regular one.
    """
    found: list[PurePath] = []
    left = [PurePath(name)]
    while left:
        at = left.pop()
        for each, mode in _entries(below, at):
            if stat.S_ISDIR(mode) and not wanted(each):
                left.append(at / each)
            elif wanted(each) or (stat.S_ISLNK(mode) and Path(below, at, each).is_dir()):
                if not stat.S_ISREG(mode):
                    raise _odd(Path(below, at, each), mode)
                found.append(at / each)
    return [str(each) for each in sorted(found)]


def _entries(below: Path, name: Name) -> list[tuple[str, int]]:
    """Return the names in a folder with their modes, sorted by name."""
    parts = _parts(below, name)
    if len(parts) > DEEPEST:
        raise UnsafeFileError(
            errno.ELOOP, f"folders are nested more than {DEEPEST} deep", str(Path(below, name))
        )
    found: list[tuple[str, int]] = []
    try:
        with _folder(below, parts) as fd:
            for each in sorted(os.listdir(fd)):  # noqa: PTH208 - a descriptor
                with suppress(FileNotFoundError):  # gone since
                    found.append((each, os.stat(each, dir_fd=fd, follow_symlinks=False).st_mode))
    except FileNotFoundError:
        return []
    return found


# --- writing --------------------------------------------------------------------------------------


def write_whole(below: Path, name: Name, content: str | bytes, mode: int = 0o666) -> None:
    """Write a file atomically: a reader sees the old file or the whole new one. What had the name
    is replaced, a link too.

    Raises:
        UnsafeFileError: a link is on the way to the file.
        OSError: it cannot be written. Nothing half-written stays.
    """
    data = content.encode() if isinstance(content, str) else content
    with _parent(below, name) as (folder, last):
        part = f".{secrets.token_hex(8)}.part"
        fd = os.open(part, _NEW, mode, dir_fd=folder)
        try:
            with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
            os.replace(part, last, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def append_line(below: Path, name: Name, line: bytes, *, durable: bool = False) -> None:
    """Append a line to a file by one write, so that two programs that do so at once do not mix
    their lines.

    If a crash has cut the line before it, that one is ended first. ``durable``: write it through to
    the disk.

    Raises:
        UnsafeFileError: it is no plain file, or a link is on the way to it.
        OSError: it cannot be written.
    """
    with _parent(below, name) as (folder, last):
        fd = _without_link(last, os.O_RDWR | os.O_CREAT | os.O_APPEND, folder, Path(below, name))
        try:
            _check_regular(fd, Path(below, name))
            size = os.fstat(fd).st_size
            cut = b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""
            os.write(fd, cut + line + b"\n")
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)


def truncate(below: Path, name: Name, size: int) -> None:
    """Cut a file to ``size`` bytes. It fails like :func:`append_line`."""
    with _parent(below, name) as (folder, last):
        fd = _without_link(last, os.O_RDWR, folder, Path(below, name))
        try:
            _check_regular(fd, Path(below, name))
            os.ftruncate(fd, size)
        finally:
            os.close(fd)


def make_folder(below: Path, name: Name) -> Path:
    """Make a folder, and those on the way to it, where they are not there yet; return its path.

    Raises:
        UnsafeFileError: there is something else of that name, or a link is on the way to it.
        OSError: it cannot be made.
    """
    parts = _parts(below, name)
    for count in range(1, len(parts) + 1):
        with _folder(below, parts[: count - 1]) as fd, suppress(FileExistsError):
            os.mkdir(parts[count - 1], dir_fd=fd)
    with _folder(below, parts):
        return Path(below, name)


# --- JSON and TOML --------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has a number that is too large.
    """
    return _checked(json.loads, text, excessive)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text. It fails like :func:`parse_json`, or by
    ``tomllib.TOMLDecodeError``, a ``ValueError``. TOML has ``nan`` and ``inf``; what may not be
    one of them is for the reader of the field to say.
    """
    return _checked(tomllib.loads, text, partial(excessive, finite=False))


def _checked(
    parse: Callable[[Text], Value], text: Text, wrong_in: Callable[[object], str | None]
) -> Value:
    try:
        value = parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if wrong := wrong_in(value):
        raise ValueError(wrong)
    return value


def excessive(value: object, *, finite: bool = True) -> str | None:
    """Say that a value is nested too deeply, or that a number in it is too large for what is done
    with it; else ``None``. ``finite``: whether numbers must be finite.
    """
    inside: Sequence[object] = (value,)
    for _ in range(DEEPEST):
        if any(isinstance(each, int) and not -LARGEST < each < LARGEST for each in inside):
            return "a number in it is too large"
        if finite and any(isinstance(e, float) and not math.isfinite(e) for e in inside):
            return "a number in it is not finite"
        inside = [part for each in inside for part in _inside(each)]
        if not inside:
            return None
    return "it is nested too deeply"


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


# --- descriptors ----------------------------------------------------------------------------------


@contextmanager
def _opened(below: Path, name: Name) -> Iterator[int]:
    """Open a regular file for reading."""
    with _parent(below, name) as (folder, last):
        fd = _without_link(last, os.O_RDONLY, folder, Path(below, name))
        try:
            _check_regular(fd, Path(below, name))
            yield fd
        finally:
            os.close(fd)


@contextmanager
def _parent(below: Path, name: Name) -> Iterator[tuple[int, str]]:
    """Open the folder of a file; yield its descriptor and the file's own name."""
    *inside, last = _parts(below, name) or [""]
    if not last:
        raise UnsafeFileError(errno.EISDIR, "it is the folder itself", str(below))
    with _folder(below, inside) as fd:
        yield fd, last


@contextmanager
def _folder(below: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open a folder, one component after the other, and none of them if it is a link."""
    fd = os.open(below, _FOLDER)
    try:
        for count, part in enumerate(parts, 1):
            outer, fd = fd, _without_link(part, _FOLDER, fd, Path(below, *parts[:count]))
            os.close(outer)
        yield fd
    finally:
        os.close(fd)


def _without_link(name: str, flags: int, folder: int, path: Path) -> int:
    """Open a name in a folder, unless it is a link."""
    try:
        return os.open(name, flags | _NO_LINK, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in {
            errno.ELOOP,
            errno.ENOTDIR,
            errno.ENXIO,
        }:  # a link, a link where a folder must be, a FIFO or a socket
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise _odd(path, mode) from None
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _check_regular(fd: int, path: Path) -> None:
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        raise _odd(path, mode)


def _parts(below: Path, name: Name) -> list[str]:
    """Return the components of a path. Raises UnsafeFileError if it leads out of the folder."""
    path = PurePath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise UnsafeFileError(errno.EINVAL, f"it is not below {below}", str(name))
    return list(path.parts)


_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link, and lostack follows none in a folder of runs"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
)


def _odd(path: Path, mode: int) -> UnsafeFileError:
    said = next((word for is_kind, word in _KINDS if is_kind(mode)), "a device, not a file")
    return UnsafeFileError(
        errno.EISDIR if stat.S_ISDIR(mode) else errno.ELOOP, f"it is {said}", str(path)
    )
