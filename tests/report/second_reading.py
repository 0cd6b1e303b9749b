"""A second reading of the sentence about a record: each clause is held against the plain lines of
the history. Nothing here comes from the code that makes the sentences.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Line = dict[str, Any]
WHO = r"(?P<who>(?:the|a) [a-z-]+|the [a-z-]+ [a-z0-9-]+|[a-z-]+-\d+)"
ERROR = r"(?: \((?P<error>.*)\))?"
WHEN = (
    r"(?:(?P<times>\d+) times, first at (?P<first>\S+) s and last at (?P<last>\S+) s"
    r"|at (?P<at>.+ s))"
)
NEVER = ("nothing more", "after that", "None", "because")
"""What no sentence says."""


def lines_of(folder: Path) -> list[Line]:
    """Return the whole lines of a history's files, in order of time."""
    found = []
    for file in sorted(folder.rglob("*.jsonl")):
        for line in file.read_bytes().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # its program was killed inside this line
    return sorted(found, key=lambda line: int(line["t"]))


class SecondReading:
    """The lines of one cell. Each check returns what is wrong with one clause, or nothing."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.zero = lines[0]["t"]
        self.about: dict[str, list[Line]] = {}
        """The lines about each record."""
        for line in lines:
            many = line.get("records")
            for record in many if isinstance(many, list) else [line.get("record")]:
                self.about.setdefault(str(record), []).append(line)
        self.roles: dict[str, str] = {}
        """The role of each connection, and of each incarnation of a program."""
        self.nodes: dict[str, set[str]] = {"": set()}
        """The nodes of each role."""
        for line in lines:
            if line["event"] == "node":
                self.roles[f"{line['node']}-{line['incarnation']}"] = line["role"]
                self.nodes.setdefault(line["role"], set()).add(line["node"])
        for line in lines:
            if line["event"] in ("frame", "rule", "owner") and line.get("conn") is not None:
                self.roles[f"conn {line['conn']}"] = line["role"]
        for line in lines:
            if line["event"] == "sent" and line.get("attempt"):
                role = self.roles.get(line["attempt"].split(".")[0], "")
                self.roles.setdefault(f"conn {line['request'].split(':')[0]}", role)

    def by(self, line: Line) -> str:
        """Name the program that a line is about: the node, where others have its role."""
        role = self.role_of(line)
        if not role:
            return "a program"
        if len(self.nodes.get(role, ())) < 2:
            return f"the {role}"
        program = str(line.get("attempt") or line["by"]).split(".")[0]
        node = program[: program.rfind("-")] if "-" in program else ""
        if node not in self.nodes[role]:
            return f"a {role}"
        alone = node == role or node.startswith(f"{role}-")
        return f"the {node}" if node == role else node if alone else f"the {role} {node}"

    def role_of(self, line: Line) -> str:
        """Return the role of the program that a line is about."""
        conn = (
            line["conn"] if line.get("conn") is not None else str(line.get("request")).split(":")[0]
        )
        program = str(line.get("attempt") or line["by"]).split(".")[0]
        return self.roles.get(f"conn {conn}") or self.roles.get(program) or ""

    def meant(self, who: str) -> str:
        """Return the role of which a clause tells: of its one program, or of all that have it."""
        _, _, role = who.partition(" ")
        return role if role in self.nodes else role.removesuffix("s")

    def shown(self, t: int) -> str:
        """Return a time as the sentence shows it."""
        return f"{(t - self.zero) / 1e9:.1f}"

    def of(self, record: str, *kinds: str) -> list[Line]:
        """Return the lines of these kinds about a record."""
        return [line for line in self.about.get(record, ()) if line["event"] in kinds]

    def wrong(self, record: str, sentence: str, row: Line) -> Iterator[str]:
        """Yield what is wrong with a sentence."""
        plain = re.sub(r"\([^()]*\)", "", sentence)  # without what programs said
        yield from (f"it says {words!r}" for words in NEVER if words in plain)
        yield from self.false(record, sentence, row)
        yield from self.left_out(record, sentence, row)

    def false(self, record: str, sentence: str, row: Line) -> Iterator[str]:
        """Yield the clauses that no line, or not all lines, bear out."""
        for clause in self._clauses(record, sentence, row):
            if said := clause.wrong():
                yield f"{clause.words}: {said}"

    def left_out(self, record: str, sentence: str, row: Line) -> Iterator[str]:
        """Yield what a sentence that tells of sends does not tell: a send, or an answer."""
        told = self._clauses(record, sentence, row)
        if row["state"] == "recorded" and not row["stored_twice"]:
            return
        if any(clause.name in ("given", "no reader") for clause in told):
            return
        answers = [line for line in self.of(record, "produce_answer") if line["error"] is not None]
        sends = self.of(record, "sent")
        for lines, names in ((sends, ("sent",)), (answers, ANSWERS)):
            said = sum(clause.count for clause in told if clause.name in names)
            if said != len(lines):
                yield f"it tells {said} of {len(lines)}: {names[0]}"

    def _clauses(self, record: str, sentence: str, row: Line) -> list[Clause]:
        return [Clause(self, record, row, *found) for found in clauses(sentence)]


@dataclass
class Clause:
    """One clause of a sentence: its kind, and what it names."""

    reading: SecondReading
    record: str
    row: Line
    words: str
    name: str | None
    named: Line

    @property
    def count(self) -> int:
        """How many times it tells."""
        return int(self.named.get("times") or len(_split(self.named.get("at") or "")))

    def wrong(self) -> str:
        """Say what is wrong with it."""
        return "unknown words" if self.name is None else KINDS[self.name][1](self)

    def all_of(self, lines: Iterable[Line]) -> str:
        """Say that its times are not those of all these lines."""
        at = [self.reading.shown(line["t"]) for line in lines]
        if self.named.get("times"):
            said = [self.named["first"], self.named["last"]]
            right = int(self.named["times"]) == len(at) and len(at) > 3 and said == [at[0], at[-1]]
        else:
            right = _split(self.named["at"]) == at
        return "" if right else f"the lines say {at}"

    def own(self, *kinds: str, **fields: object) -> list[Line]:
        """Return the lines of these kinds about the record, by the clause's program."""
        return [
            line
            for line in self.reading.of(self.record, *kinds)
            if self.reading.by(line) == self.named["who"]
            and all(line.get(name) == value for name, value in fields.items())
        ]

    def given(self, role: str) -> list[Line]:
        """Return by which lines programs of a role were given records. The wire's lines count if
        the wire knew all readers and saw this one.
        """
        lines = [line for line in self.reading.lines if line["event"] == "fetched"]
        wire = [line for line in lines if line.get("reached") is not False]
        roles = {self.reading.role_of(line) for line in wire}
        if "" in roles or role not in roles:
            wire = [line for line in self.reading.lines if line["event"] == "delivered"]
        return [line for line in wire if self.reading.role_of(line) == role]


def _split(at: str) -> list[str]:
    return [each.removesuffix(" s") for each in re.split(", | and ", at) if each]


def clauses(sentence: str) -> Iterator[tuple[str, str | None, Line]]:
    """Yield each clause, with its kind, and what it names. A clause without a subject has that of
    the clause before.
    """
    subject = ""
    for words in re.split(r"; (?![^(]*\))", sentence):
        for whole in (words, f"{subject} {words}"):
            kind, found = next(
                (
                    (kind, found)
                    for kind, (pattern, _) in KINDS.items()
                    if (found := re.fullmatch(pattern, whole))
                ),
                (None, None),
            )
            if found:
                named = found.groupdict()
                subject = named.get("subject") or named.get("who") or ""
                yield whole, kind, named
                break
        else:
            yield words, None, {}


def _sent(clause: Clause) -> str:
    return clause.all_of(clause.own("sent"))


def _unsent(clause: Clause) -> str:
    kept = {
        f"{line['conn']}:{line['corr']}"
        for line in clause.reading.of(clause.record, "rule")
        if line["phase"] in ("discarded", "dropped", "answered")
    }
    return clause.all_of(line for line in clause.own("unsent") if line["request"] not in kept)


def _answered(*, reached: bool) -> Callable[[Clause], str]:
    def check(clause: Clause) -> str:
        error = clause.named.get("error") or "0"
        return clause.all_of(
            line
            for line in clause.own("produce_answer")
            if str(line["error"]) == error and (line.get("reached") is not False) == reached
        )

    return check


def _told(kind: str) -> Callable[[Clause], str]:
    def check(clause: Clause) -> str:
        error = clause.named.get("error")
        return clause.all_of(
            line
            for line in clause.own(kind)
            if (error is None and not line.get("error")) or str(error) in str(line.get("error"))
        )

    return check


def _ruled(clause: Clause) -> str:
    phases = {
        "held": ("held",),
        "released": ("released",),
        "delivered": ("delivered",),
        "discarded": ("discarded", "dropped"),
        "answered": ("answered",),
    }[clause.named["verb"]]
    return clause.all_of(
        line
        for line in clause.own("rule", api=clause.named["api"], dir=clause.named["dir"])
        if line["phase"] in phases and not line["rule"].endswith("-wave")
    )


def _given(clause: Clause) -> str:
    """The wire's lines, or the program's; all of either."""
    wire = [line for line in clause.own("fetched") if line.get("reached") is not False]
    return clause.all_of(wire) and clause.all_of(clause.own("delivered"))


def _ungiven(clause: Clause) -> str:
    return clause.all_of(clause.own("fetched", reached=False))


def _acknowledged(clause: Clause) -> str:
    how = clause.named.get("how") or "ack"
    bound = bool(clause.named.get("bound"))
    return clause.all_of(
        line
        for line in clause.own("acknowledged", outcome=None, how=how)
        if bool(line.get("transactional_id")) == bound and line.get("reached") is not False
    )


def _acknowledgement(**fields: object) -> Callable[[Clause], str]:
    return lambda clause: clause.all_of(
        clause.own("acknowledged", how=clause.named["how"], **fields)
    )


def _transaction(clause: Clause) -> str:
    attempts = {
        line["attempt"].rpartition(".")[0]
        for line in clause.reading.lines
        if line.get("record") == clause.record and line.get("attempt")
    }
    return clause.all_of(
        line
        for line in clause.reading.lines
        if line["event"] == "transaction"
        and line["transaction"] in attempts
        and line["outcome"] == clause.named["outcome"]
        and clause.reading.by(line) == clause.named["who"]
        and str(clause.named["error"] or "None") in str(line.get("error"))
    )


def _forgot(clause: Clause) -> str:
    sent = clause.reading.of(clause.record, "sent")
    return clause.all_of(
        line
        for line in clause.reading.lines
        if line["event"] == "fault"
        and line["phase"] == "forgot"
        and line.get("node") == clause.named["node"]
        and (line.get("bytes_after") or 0) < (line.get("bytes_before") or 0)
        and any(
            f"{e['topic']}-{e['partition']}" == line["file"] and e["t"] < line["t"] for e in sent
        )
    )


def _saved(clause: Clause) -> str:
    """A position is saved when the broker says so; in a transaction, when it says that it commits
    this: the next of the same name that is ended, before another producer takes the name.
    """
    reading, named = clause.reading, clause.named
    copies = [
        line
        for line in reading.of(clause.record, "stored")
        if line["hop"] == "topic" and line.get("offset") is not None
    ]
    if not copies:
        return "there is no copy"
    if (named["past"] == "it") != (len(copies) == 1):
        return f"there are {len(copies)} copies"
    saved = [
        (line, t)
        for line in reading.lines
        if line["event"] == "committed"
        and line.get("group") == named["group"]
        and (t := _saved_at(reading, line)) is not None
    ]
    mine = [
        t
        for line, t in saved
        if reading.by(line) == named["who"]
        and (str(line["offset"]), str(line["partition"])) == (named["offset"], named["partition"])
        and reading.shown(t) == named["at"].removesuffix(" s")
    ]
    if not mine:
        return "the group saved no such position"
    for copy in copies:
        past = (
            t <= mine[0]
            for line, t in saved
            if (line["topic"], line["partition"]) == (copy["topic"], copy["partition"])
            and line["offset"] > copy["offset"]
        )
        if not any(past):
            return f"no position is past {copy['offset']}"
    return ""


def _saved_at(reading: SecondReading, line: Line) -> int | None:
    if line.get("reached") is False:
        return None
    key = ("request", "topic", "partition", "offset")
    answer = [
        each["t"]
        for each in reading.lines
        if each["event"] == "commit_answer"
        and each["error"] == 0
        and all(each.get(name) == line[name] for name in key)
    ]
    if not answer or line.get("transactional_id") is None:
        return answer[0] if answer else None
    ends = {e["request"]: e for e in reading.lines if e["event"] == "end_txn_answer"}
    for each in reading.lines:
        if each["t"] <= line["t"] or each.get("transactional_id") != line["transactional_id"]:
            continue
        if each["event"] == "init_producer":
            return None
        if each["event"] == "end_txn" and ends.get(each["request"], {}).get("error") == 0:
            return int(ends[each["request"]]["t"]) if each["commit"] else None
    return None


def _turned(clause: Clause) -> str:
    """A process ended, was paused or came back: its node has this name, and this role."""
    named = clause.named
    nodes = []
    for line in clause.reading.lines:
        if line["event"] != "node":
            continue
        names = {f"the {line['role']} {line['node']}"}
        if line["node"] == line["role"]:
            names = {f"the {line['role']}"}
        elif line["node"].startswith(f"{line['role']}-"):
            names = {line["node"]}
        if named["subject"] in names:
            nodes.append(line)
    how = named["how"]
    over = [
        line["t"]
        for line in clause.reading.lines
        if line["event"] == "drain" and line["phase"] != "begun"
    ]
    found = [line for line in nodes if _did(line, how) and line["t"] < (over or [1 << 62])[0]]
    if how in ("was started again", "took the place of another"):
        found = [line for line in found if _began(line, nodes) == how]
    shown = [clause.reading.shown(line["t"]) for line in found]
    said = _split(named["at"] or "") or [named["first"], named["last"]]
    return (
        "" if set(said) <= set(shown) and clause.count <= len(shown) else f"the lines say {shown}"
    )


def _began(start: Line, nodes: list[Line]) -> str:
    """Say how a process began: as the first of its node, behind another, or beside one."""
    before = [e for e in nodes if e["t"] < start["t"] and e["phase"] in ("started", "exited")]
    ended = any(e["phase"] == "exited" for e in before)
    if not ended and start["incarnation"] < 2:
        return ""
    behind = bool(before) and before[-1]["phase"] == "exited" and not start.get("stood_by")
    return "was started again" if behind else "took the place of another"


def _did(line: Line, how: str) -> bool:
    if how in ("was started again", "took the place of another"):
        return bool(line["phase"] == "started")
    if how in ("was paused", "went on"):
        return bool(line["phase"] == {"was paused": "paused", "went on": "resumed"}[how])
    if line["phase"] != "exited":
        return False
    if how == "was killed":
        return line.get("signal") == 9 and not line.get("asked")
    if how.startswith("ended, as it was told"):
        return bool(line.get("asked"))
    return how in (
        f"ended by itself (status {line.get('status')})",
        f"ended by itself (signal {line.get('signal')})",
    )


def _others(clause: Clause) -> str:
    """The count is made from a moment that is shown as the clause shows it; no line tells that the
    program moved this record after that moment, and one does that it did before, if the clause says
    *again*.
    """
    reading, named = clause.reading, clause.named
    role = reading.meant(named["who"])
    nodes = reading.nodes.get(role, set())
    if (len(nodes) > 1) != (named["who"] == f"the {role}s"):
        return f"{role} has the nodes {nodes}"
    kinds = ("sent", "unsent") if named["verb"] == "sent" else ("fetched", "delivered")
    own = [line for line in reading.of(clause.record, *kinds) if line.get("reached") is not False]
    mine = [line["t"] for line in own if reading.role_of(line) in (role, "")]
    if (named["never"] == "this one never again") != bool(own):
        return f"there are {len(own)} lines about this one"
    if named["verb"] == "sent":
        lines = [line for line in reading.lines if line["event"] == "sent"]
        moved = [line for line in lines if reading.role_of(line) == role]
        if not all(map(reading.role_of, lines)):
            return "not all senders are known"
    else:
        moved = clause.given(role)
    since = {line["t"] for line in reading.lines if reading.shown(line["t"]) == named["since"]}
    counts = {
        len({line["record"] for line in moved if line["t"] > t} - {None, clause.record})
        for t in since
        if all(each <= t for each in mine)
    }
    right = int(named["count"]) in counts and (named["count"] == "1") == (named["s"] == "")
    return "" if right else f"the lines say {counts}"


def _unseen(*kinds: str) -> Callable[[Clause], str]:
    def check(clause: Clause) -> str:
        found = clause.reading.of(clause.record, *kinds)
        return "there is one" if any(line.get("reached") is not False for line in found) else ""

    return check


def _unanswered(clause: Clause) -> str:
    sent = clause.reading.of(clause.record, "sent")
    return "there is one" if clause.reading.of(clause.record, "produce_answer") or not sent else ""


def _stored(*, visible: bool) -> Callable[[Clause], str]:
    def check(clause: Clause) -> str:
        places = [
            f"partition {line['partition']} offset {line['offset']}"
            if line.get("offset") is not None
            else line.get("place")
            for line in clause.reading.of(clause.record, "stored")
            if line["hop"] == "topic" and line["visible"] == visible
        ]
        more = int(clause.named["more"] or 0)
        said = clause.named["places"].split(", ")
        right = places[: len(said)] == said and len(places) == len(said) + more
        return "" if right else f"the lines say {places}"

    return check


def _gone(clause: Clause) -> str:
    found = clause.reading.of(clause.record, "removed", "deleted")
    right = any(
        line.get("why", "retention") == clause.named["why"]
        and clause.named["place"]
        in (f"partition {line.get('partition')} offset {line.get('offset')}", line.get("place"))
        for line in found
    )
    return "" if right else "no line says it"


def _moved(clause: Clause) -> str:
    found = clause.reading.of(clause.record, "moved")
    return "" if any(line["to"] == clause.named["to"] for line in found) else "no line says it"


def _output(clause: Clause) -> str:
    rows = [line for line in clause.reading.of(clause.record, "recorded") if line["intact"]]
    folded = clause.reading.of(clause.record, "folded")
    newest = max((line["version"] for line in folded), default=None)
    last = [line["times"] for line in folded if line["version"] == newest][-1:]
    count = len(rows) + sum(last)
    said = int(clause.named.get("rows") or 0)
    return "" if said == count == clause.row["recordings"] else f"the lines say {count}"


ENDS = (
    r"was killed|was paused|went on|was started again|took the place of another"
    r"|ended by itself \((?:status|signal) \w+\)"
)
VERB = r"(?P<verb>held|released|delivered|discarded|answered)"
ANSWERS = ("acknowledged", "answered", "acknowledgement lost", "answer lost")
KINDS: dict[str, tuple[str, Callable[[Clause], str]]] = {
    "taken": (f"{WHO} took it from the source {WHEN}", _told("taken")),
    "offered": (
        f"(?P<subject>lostack) offered it {WHEN}",
        lambda clause: clause.all_of(
            line for line in clause.reading.of(clause.record, "taken") if line["by"] == "runner"
        ),
    ),
    "sent": (f"{WHO} sent it {WHEN}", _sent),
    "unsent": (f"(?P<subject>a request of {WHO} with it) did not reach the broker {WHEN}", _unsent),
    "acknowledged": (
        f"(?P<subject>the broker) acknowledged it to {WHO} {WHEN}",
        _answered(reached=True),
    ),
    "answered": (
        rf"(?P<subject>the broker) answered {WHO} with error (?P<error>.+?) {WHEN}",
        _answered(reached=True),
    ),
    "acknowledgement lost": (
        f"(?P<subject>the broker's acknowledgement of it) did not reach {WHO} {WHEN}",
        _answered(reached=False),
    ),
    "answer lost": (
        rf"(?P<subject>the broker's answer with error (?P<error>.+?)) did not reach {WHO} {WHEN}",
        _answered(reached=False),
    ),
    "acked": (f"{WHO} was told that it is stored {WHEN}", _told("acked")),
    "refused": (f"{WHO} was told that it is not stored{ERROR} {WHEN}", _told("refused")),
    "unknown": (f"{WHO} could not know whether it is stored{ERROR} {WHEN}", _told("unknown")),
    "transaction": (
        (
            rf"{WHO} was told(?: by its library)? of a transaction with it: "
            rf"(?P<outcome>\w+){ERROR}, {WHEN}"
        ),
        _transaction,
    ),
    "ruled": (
        (
            rf"(?P<subject>lostack's fault) {VERB} the (?P<api>.+) (?P<dir>request|response) "
            rf"(?:of|to) {WHO} about it(?: late| in the broker's name)? {WHEN}"
        ),
        _ruled,
    ),
    "forgot": (
        rf"(?P<subject>its log on (?P<node>\S+)) went back to what was flushed {WHEN}",
        _forgot,
    ),
    "given": (f"{WHO} was given it {WHEN}", _given),
    "not given": (f"(?P<subject>an answer with it) did not reach {WHO} {WHEN}", _ungiven),
    "acknowledges": (
        (
            rf"{WHO} (?:acknowledged it|answered it with (?P<how>\w+))"
            rf"(?P<bound> in a transaction)? {WHEN}"
        ),
        _acknowledged,
    ),
    "acknowledges in vain": (
        rf"(?P<subject>the (?P<how>\w+) of {WHO} for it) did not reach the broker {WHEN}",
        _acknowledgement(outcome=None, reached=False),
    ),
    "is refused": (
        rf"(?P<subject>the broker) refused the (?P<how>\w+) of {WHO} for it {WHEN}",
        _acknowledgement(outcome="refused"),
    ),
    "saved": (
        (
            rf"{WHO} saved position (?P<offset>\d+) of partition (?P<partition>\d+)"
            rf"(?: for group (?P<group>\S+))?, past (?P<past>it|the last of its copies), {WHEN}"
        ),
        _saved,
    ),
    "turned": (
        rf"(?P<subject>.+?) (?P<how>{ENDS}|ended, as it was told to \(SIGTERM\),) {WHEN}",
        _turned,
    ),
    "others": (
        (
            rf"{WHO} (?P<verb>sent|was given|were given) (?P<count>\d+) other(?P<s>s?) after "
            r"(?P<since>\S+) s, and (?P<never>this one never again|not this one)"
        ),
        _others,
    ),
    "no request": ("no request with it was seen on the wire", _unseen("sent", "unsent")),
    "no answer": ("no answer to it was seen", _unanswered),
    "no reader": ("no reader was seen to be given it", _unseen("fetched", "delivered")),
    "stored": (r"stored at (?P<places>.+?)(?: and (?P<more>\d+) more)?", _stored(visible=True)),
    "hidden": (
        r"stored where no committed reader sees it, at (?P<places>.+?)(?: and (?P<more>\d+) more)?",
        _stored(visible=False),
    ),
    "gone": (r"the broker took it away from (?P<place>.+) \((?P<why>[\w-]+)\)", _gone),
    "moved": (r"it was moved to (?P<to>.+)", _moved),
    "output": (r"the output (?:has it (?P<rows>\d+) times|does not have it)", _output),
}
"""By name: how a clause of a kind is worded, and what is wrong with one. ``who`` is the program;
``subject``, if another, is what the next clause is about if that names nobody.
"""
