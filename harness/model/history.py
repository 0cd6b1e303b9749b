"""The history: append-only JSON lines, one file per writer, readable after any crash.

One line is one event::

    {"line": <its number>, "t": <monotonic ns>, "w": <wall ns>, "cell": "...", "by": "<writer>",
        "event": "<kind>", ...}

A writer numbers its lines from 1, so the reader notices if a line is missing in the middle (in
lines without numbers it cannot). A writer appends one line, or all lines of one moment, by a single
``write(2)`` on an ``O_APPEND`` descriptor that it alone has. So a SIGKILL can only cut the *last*
line of a file. If the writer is a program that may be killed, the reader expects a cut last line
and drops it. Nobody kills the runner or the wire, so their files end with a whole line. Any other
damaged or missing line means that somebody changed the file, or that two writers shared it. The
reader reports this as damage, which voids the cell. Whole lines that are missing at the end of a
file, and whole files, are missed by :mod:`harness.model.ending`.
"""

from __future__ import annotations

import errno
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union, cast, overload

import msgspec

from harness.model import safe_files
from harness.model.conversion import convert, decoder
from harness.model.events import CLASSES, OfUnknownKind
from harness.model.events import Event as Event  # noqa: PLC0414 - who reads a history names it, too
from harness.model.former import with_former_topics
from harness.model.older import history_of_before, line_of_before
from harness.model.writing import SUFFIX as SUFFIX  # noqa: PLC0414
from harness.model.writing import Appending, in_plain_json
from harness.model.writing import HistoryError as HistoryError  # noqa: PLC0414

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

HISTORY = "history"
"""The folder of a history, in the folder of its cell."""
LOGS = "logs"
"""The folder, beside the history, of what the processes of the cell printed."""
MOST_BYTES = 1 << 30
"""The largest history that is read, in bytes. 100,000 records, the most that a cell has, need about
half of that.
"""
MOST_LINE = 16 << 20
"""The longest line that is read, in bytes."""
LASTING = frozenset({"runner", "wire"})
"""Writers that live until a cell has ended. If a file of theirs ends inside a line, it was cut
later, or the disk was full.
"""

A = TypeVar("A", bound=Event)
B = TypeVar("B", bound=Event)
C = TypeVar("C", bound=Event)
D = TypeVar("D", bound=Event)


class Line(NamedTuple):
    """A line whose fields have no type: what the wire says of a frame, which a protocol knows (also
    one of somebody else's), and of its own ports. All else that is written is an event.
    """

    kind: str
    fields: Mapping[str, object]


class HistoryWriter(Appending):
    """Appends events to one file."""

    def write(self, event: Event | Line) -> None:
        """Append one event. The writer says its number, its times, its cell and by whom it is.

        Raises:
            HistoryError: the line could not be written whole.
        """
        self.append((encoded(event),))

    def write_all(self, events: Iterable[Event | Line]) -> None:
        """Append events, with the same time, by one ``write(2)``.

        Raises:
            HistoryError: the lines could not be written whole.
        """
        self.append(map(encoded, events))


def _text(value: object) -> str:
    """Return the text that a name of an open enumeration is (a role, a request)."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{value!r} cannot be written into a history")


_FAST = msgspec.json.Encoder(enc_hook=_text).encode


def encoded(event: Event | Line) -> bytes:
    """Return what is in the line of an event besides what every line has."""
    if isinstance(event, Line):
        return in_json({"event": event.kind, **event.fields})
    if event.facts is None:
        return in_json(event)
    return in_json(_plain_of(msgspec.structs.replace(event, facts=None)) | event.facts)


def _plain_of(told: object) -> Any:
    return msgspec.to_builtins(told, enc_hook=_text)


def in_json(line: object) -> bytes:
    r"""Return a line as JSON, ten times as fast as by the standard library, unless a text in it is
    no Unicode.

    >>> in_json({"record": "a-1"}), in_json({"record": chr(0xD800)})
    (b'{"record":"a-1"}', b'{"record":"\\ud800"}')
    """
    try:
        return _FAST(line)
    except UnicodeEncodeError:
        return in_plain_json(_plain_of(line))


@dataclass(frozen=True, slots=True)
class History:
    """All events of one cell, ordered by monotonic time, and the lines that could not be read."""

    events: tuple[Event, ...]
    cut_lines: tuple[str, ...] = field(default=())
    """Files of programs whose last line was cut by a crash (normal)."""
    damage: tuple[str, ...] = field(default=())
    """``file:line`` of each line that is damaged, written twice, of another cell, or follows a gap;
    and of a cut last line of a writer that nobody kills. None of these is normal.
    """
    _places: dict[type[Event], list[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Where the events of each kind are among :attr:`events`, when somebody has asked for a
    kind.
    """

    @overload
    def of(self, a: type[A], /) -> Iterator[A]: ...
    @overload
    def of(self, a: type[A], b: type[B], /) -> Iterator[A | B]: ...
    @overload
    def of(self, a: type[A], b: type[B], c: type[C], /) -> Iterator[A | B | C]: ...
    @overload
    def of(self, a: type[A], b: type[B], c: type[C], d: type[D], /) -> Iterator[A | B | C | D]: ...
    @overload
    def of(self, *kinds: type[A]) -> Iterator[A]: ...

    def of(self, *kinds: type[Event]) -> Iterator[Event]:
        """Return the events of the given kinds, in order of time."""
        if not self._places:
            found_at: defaultdict[type[Event], list[int]] = defaultdict(list)
            for place, event in enumerate(self.events):
                found_at[type(event)].append(place)
            self._places.update(found_at)
        found = [self._places[each] for each in self._places.keys() & set(kinds)]
        places = found[0] if len(found) == 1 else sorted(chain.from_iterable(found))
        return (self.events[place] for place in places)


def read_history(directory: Path, cell: str | None = None) -> History:
    """Read every ``*.jsonl`` below ``directory``.

    A line that stands there twice (a copied file: no two writes share a time) counts once. A line
    of another cell than ``cell`` does not count. Both are damage.

    Raises:
        HistoryError: there is no history in the folder, or a file of it is no plain file, or it is
            too large.
    """
    return parse_history(read_files(directory), cell)


def read_files(directory: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Return the name of each file of a history, and its content, piece by piece.

    Raises:
        HistoryError: there is no history, or it cannot be read.
    """
    files = history_files(directory)
    if not files:
        msg = f"no history in {directory}"
        raise HistoryError(msg)
    return _read(directory.parent, files)


def history_files(directory: Path) -> list[str]:
    """Return the files of the history in a folder, as paths from the folder that holds it, sorted.

    Raises:
        HistoryError: there is a link or another special file among them.
    """
    try:
        return safe_files.files(
            directory.parent, directory.name, lambda name: name.endswith(SUFFIX)
        )
    except OSError as error:
        raise _unreadable(error, directory) from error


def _read(below: Path, files: Iterable[str]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield each file's path in the history's folder, and its content, piece by piece. All together
    have a limit.
    """
    left = MOST_BYTES

    def pieces(file: str) -> Iterator[bytes]:
        nonlocal left
        try:
            for piece in safe_files.read_chunks(below, file, left):
                left -= len(piece)
                yield piece
        except OSError as error:
            raise _unreadable(error, below / file) from error

    for file in files:
        yield str(PurePath(*PurePath(file).parts[1:])), pieces(file)


def _unreadable(error: OSError, path: Path) -> HistoryError:
    if error.errno == errno.EFBIG:
        return HistoryError(
            f"the history {path.parent} is larger than {MOST_BYTES:,} bytes, the most that "
            "lostack reads"
        )
    return HistoryError(f"cannot read the history {error.filename or path}: {error.strerror}")


def parse_history(files: Iterable[tuple[str, Iterable[bytes]]], cell: str | None = None) -> History:
    """Return the history in ``files``, ordered by path. ``cell``: the cell's id; ``None``: any
    cell.

    Each file is its name, and its content in pieces.

    Raises:
        HistoryError: a line is longer than any that lostack writes.
    """
    lines = Lines(cell)
    events: list[Event] = []
    cut: list[str] = []
    for name, content in files:
        at, last = Mark(name), b""
        for piece in content:
            *whole, last = (last + piece).split(b"\n")
            events += lines.events(whole, at)
            if len(last) > MOST_LINE:
                raise HistoryError(
                    f"line {at.lines + 1} of {name} is longer than lostack reads ({MOST_LINE:,} "
                    "bytes)"
                )
        ended = at.lines
        if last and _decoded(last) == "":
            # no newline behind it, and no whole JSON: the writer was killed inside this line
            cut.append(name)
        elif last:
            events += lines.events([last], at)
        if last and name.removesuffix(SUFFIX) in LASTING:
            lines.damage.append(f"{name}:{ended + 1} (it ends inside a line)")
    events.sort(key=lambda event: event.t)
    told = with_former_topics(history_of_before(events))
    return History(tuple(told), tuple(cut), tuple(lines.damage))


@dataclass(slots=True)
class Mark:
    """How far a file has been read: how many lines, and the number in the last of them (null:
    unknown).
    """

    name: str
    lines: int = 0
    told: int | None = 0


class Lines:
    """Tells events from damage in the lines of the files of one folder, also while these files
    grow.

    ``cell``: the cell of which all lines must be (``None``: any cell).
    """

    def __init__(self, cell: str | None = None) -> None:
        self.damage: list[str] = []
        """The damage so far, in the form of :attr:`History.damage`."""
        self._cell = cell
        self._known: set[bytes] = set()

    def events(self, lines: Iterable[bytes], at: Mark) -> Iterator[Event]:
        """Yield the events in ``lines``, the next whole lines of a file, and move its mark ``at``
        behind them.
        """
        for line in lines:
            at.lines += 1
            if line and (event := self._event(line, at)) is not None:
                yield event

    def _event(self, line: bytes, at: Mark) -> Event | None:
        event = _decoded(line)
        if not isinstance(event, Event):
            self.damage.append(f"{at.name}:{at.lines}{event}")
            at.told = None  # its kind cannot be known
            return None
        if line in self._known:
            self.damage.append(f"{at.name}:{at.lines} (told twice)")
            return None
        self._known.add(line)
        told = event.line
        if at.told is not None and told not in (
            1,
            at.told + 1,
        ):  # 1: another writer goes on in this file
            self.damage.append(f"{at.name}:{at.lines} (lines before it are missing)")
        at.told = told
        if self._cell is not None and event.cell != self._cell:
            self.damage.append(f"{at.name}:{at.lines} (of another cell)")
            return None
        return event


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    """Return what decodes a line of any kind. It is made when a line is read first: who only writes
    has no need of it.
    """
    return decoder(cast("type[Event]", _any_kind()))


@cache
def _any_kind() -> object:
    return Union[tuple(CLASSES.values())]  # noqa: UP007 - as many as there are


def _decoded(line: bytes) -> Event | str:
    """Return the event of a line; if it is none, why, in brackets, or nothing if it is no JSON of
    an event at all.
    """
    if line.count(b"[") + line.count(b"{") > safe_files.DEEPEST:
        event = _loaded(line)
    else:
        try:
            event = _decoder().decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            event = _loaded(line)
    return "" if isinstance(event, Event) and not 0 <= event.t < safe_files.LARGEST else event


def _loaded(line: bytes) -> Event | str:
    """Read a line that is not written as we write them (another encoding, halves of a character),
    is of an earlier version or of an unknown kind, or is damage.
    """
    try:
        told = _plain(line)
    except ValueError:
        return ""
    if not isinstance(told, dict) or not isinstance(told.get("event"), str):
        return ""
    try:
        return event_of(told)
    except ValueError as error:  # msgspec names the field, and what is wrong with it
        return f" ({told['event']}: {error})"


def _plain(line: bytes) -> object:
    """Return the content of a line.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    if line.count(b"[") + line.count(b"{") <= safe_files.DEEPEST:
        try:
            return msgspec.json.decode(line)  # a protocol's own ids may have 64 bits
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
    return safe_files.parse_json(line)


@cache
def _names(kind: type[Event]) -> frozenset[str]:
    """Return the names of the fields of a kind, as lines have them."""
    return frozenset(("event", *kind.__struct_encode_fields__))


def event_of(line: dict[str, object]) -> Event:
    """Return the event of a line's content.

    Raises:
        ValueError: it is none (by ``msgspec.ValidationError``).
    """
    line = line_of_before(line)
    if (kind := CLASSES.get(str(line["event"]))) is not None:
        if facts := line.keys() - _names(kind):
            line = {name: told for name, told in line.items() if name not in facts} | {
                "facts": {name: line[name] for name in line if name in facts}
            }
        return convert(line, kind)
    known = {name: told for name, told in line.items() if name in Event.__struct_fields__}
    rest = {name: told for name, told in line.items() if name not in {*known, "event"}}
    return convert({**known, "kind": line["event"], "fields": rest}, OfUnknownKind)


def line_of(event: Event, *, defaults: bool = True) -> dict[str, object]:
    """Return the content of an event's line, which :func:`event_of` reads: each field that has a
    value, by its name in the line. ``defaults``: also flags and numbers that are as in a line
    without them.
    """
    line: dict[str, object] = {"event": event.event}
    for told in _fields(type(event)):
        value = getattr(event, told.name)
        if told.name in _OTHERS:
            line |= value or {}
        elif value is msgspec.UNSET or (told.name == "kind" and isinstance(event, OfUnknownKind)):
            pass
        elif (
            told.required
            or told.name in Event.__struct_fields__
            or value != told.default
            or (defaults and value is not None)
        ):
            line[told.encode_name] = value
    return line


@cache
def _fields(kind: type[Event]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


_OTHERS = frozenset({"facts", "fields"})
"""The fields of events that hold fields of the line which have no type."""
