"""The bytes of the NATS protocol: lines, and messages of a stated size behind some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CRLF: Final = b"\r\n"
LONGEST: Final = 1 << 20
"""The most bytes of a line. INFO and CONNECT carry JSON in theirs."""
DIGITS: Final = 9
"""The most digits of a message's size: the server's limit is 64 MB."""
WITH_BODY: Final = {"PUB": 2, "HPUB": 3, "MSG": 3, "HMSG": 4}
"""The verbs behind whose line a message follows, each with the arguments that it has at least."""
VERBS: Final = frozenset(
    {*WITH_BODY, "CONNECT", "SUB", "UNSUB", "PING", "PONG", "INFO", "+OK", "-ERR"}
)
ACK_SUBJECT: Final = "$JS.ACK."
API_SUBJECT: Final = "$JS.API."
NEXT_SUBJECT: Final = "$JS.API.CONSUMER.MSG.NEXT."
INBOX: Final = "_INBOX."
STATUS_LINE: Final = b"NATS/1.0 "
NOBODY: Final = STATUS_LINE + b"503"
_PLAIN_ACK: Final = 9
"""The tokens of an acknowledgement's subject. A longer form names a domain and an account, too."""


class NotAFrameError(ValueError):
    """The bytes are no line of this protocol; one line says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and where the message behind it stands. ``size``: of both, line ends included."""

    verb: str
    words: tuple[str, ...]
    text: str
    """What stands behind the verb, as it is."""
    size: int
    headers: tuple[int, int] = (0, 0)
    body: tuple[int, int] = (0, 0)

    @property
    def subject(self) -> str:
        """The subject of a message; empty for other lines."""
        return self.words[0] if self.verb in WITH_BODY else ""

    @property
    def reply(self) -> str | None:
        """The subject to which an answer goes, if one is asked for."""
        if self.verb not in WITH_BODY:
            return None
        at = 1 if self.verb in ("PUB", "HPUB") else 2
        sizes = 2 if self.verb.startswith("H") else 1
        return self.words[at] if len(self.words) == at + sizes + 1 else None


def line_at(data: bytes | bytearray | memoryview) -> Line | None:
    """Return the line that data begins with; ``None``: more bytes are needed.

    Raises:
        NotAFrameError: these are no bytes of this protocol.
    """
    begins = bytes(data[: LONGEST + 1])
    end = begins.find(CRLF)
    known = begins[: end if end >= 0 else None].split(b" ", 1)[0].split(b"\t", 1)[0]
    if not any(verb.encode().startswith(known.upper()[:8]) for verb in VERBS):
        raise NotAFrameError(f"a line that begins with {known[:20]!r}")
    if end < 0:
        if len(begins) > LONGEST:
            raise NotAFrameError(f"a line of more than {LONGEST} bytes")
        return None
    try:
        text = begins[:end].decode()
    except UnicodeDecodeError:
        raise NotAFrameError("a line that is no text") from None
    verb, _, rest = text.replace("\t", " ").partition(" ")
    verb, words = verb.upper(), tuple(rest.split())
    if verb not in VERBS:
        raise NotAFrameError(f"a verb {verb[:20]!r}")
    if verb not in WITH_BODY:
        return Line(verb, words, rest, end + 2)
    return _with_body(verb, words, rest, end + 2)


def _with_body(verb: str, words: tuple[str, ...], rest: str, begins: int) -> Line:
    headed = verb.startswith("H")
    sizes = words[-2:] if headed else words[-1:]
    fixed = WITH_BODY[verb]
    if not fixed <= len(words) <= fixed + 1 or not all(
        each.isascii() and each.isdecimal() and len(each) <= DIGITS for each in sizes
    ):
        raise NotAFrameError(f"a {verb} whose arguments are {rest[:60]!r}")
    whole = int(sizes[-1])
    head = int(sizes[0]) if headed else 0
    if head > whole:
        raise NotAFrameError(f"a {verb} whose headers are longer than its message")
    body = (begins + head, begins + whole)
    return Line(verb, words, rest, begins + whole + 2, (begins, begins + head), body)


def headers_in(data: bytes) -> dict[str, str]:
    """Return the headers of a message by their names; of several with a name the last."""
    found = {}
    for each in data.decode(errors="replace").split("\r\n")[1:]:
        name, colon, value = each.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the subject of an acknowledgement says of a delivery."""

    stream: str
    consumer: str
    times: int
    """How many times the message was delivered, this time among them."""
    sequence: int


def delivery_of(subject: str) -> Delivery | None:
    """Return what the subject of an acknowledgement says; ``None``: it has another form.

    >>> delivery_of("$JS.ACK.S.workers.2.17.30.1700000000.0")
    Delivery(stream='S', consumer='workers', times=2, sequence=17)
    >>> delivery_of("$JS.ACK.hub.ABC.S.workers.1.17.30.1700000000.0.xyz").sequence
    17
    >>> delivery_of("$JS.ACK.S.workers")
    """
    tokens = subject.split(".")
    at = 2 if len(tokens) == _PLAIN_ACK else 4
    if len(tokens) < _PLAIN_ACK or not subject.startswith(ACK_SUBJECT):
        return None
    stream, consumer, times, sequence = tokens[at : at + 4]
    if not (times.isdecimal() and sequence.isdecimal()):
        return None
    return Delivery(stream, consumer, int(times), int(sequence))
