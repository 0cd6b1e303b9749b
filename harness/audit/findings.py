"""The findings of an audit: counts, ranges of lost ids, examples, and the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.audit.pages import PAGE, PAGE_BITS, Copies, Ints, decode, encode
from harness.model.semantics import Anomaly, Semantic, forbids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.judge.verdict import Kind

RANGES: Final = 1000
"""How many ranges of lost ids a report keeps. All are counted."""
SHOWN: Final = 20
"""How many ranges a terminal shows."""
EXAMPLES: Final = 10
"""How many examples of each anomaly a report has."""
UNREAD: Final = 3
"""How many rows without a readable id a report shows."""


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers ``first`` to ``last`` of ``key``, both included."""

    key: str
    first: int
    last: int

    def __str__(self) -> str:
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        return f"{self.key}={numbers}" if self.key else numbers


@dataclass(frozen=True, slots=True)
class PageFindings:
    """The findings of one page of both sides. ``runs``: the first RANGES runs of lost numbers and
    the last one, of ``lost_runs``.

    ``again`` and ``phantoms`` are (number, copies) of at most EXAMPLES ids; ``phantom_page`` has
    all phantoms of the page.
    """

    key: str
    page: int
    offered: int = 0
    offered_again: int = 0
    arrived: int = 0
    lost: int = 0
    lost_runs: int = 0
    duplicated: int = 0
    duplicated_ids: int = 0
    phantom: int = 0
    runs: tuple[tuple[int, int], ...] = ()
    again: tuple[tuple[int, int], ...] = ()
    phantoms: tuple[tuple[int, int], ...] = ()
    phantom_page: bytes = b""


NOTHING: Final = np.zeros(PAGE, dtype=np.uint32)


def compare(key: str, page: int, offered: Copies | None, arrived: Copies | None) -> PageFindings:
    """Compare the counts of one page, offered and arrived. ``None``: this side has no id of the
    page.
    """
    left = NOTHING if offered is None else offered
    right = NOTHING if arrived is None else arrived
    is_offered, is_there = left > 0, right > 0
    both = is_offered & is_there
    missing, phantom = is_offered & ~is_there, is_there & ~is_offered
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
    firsts, lasts = edges[::2], edges[1::2] - 1
    kept = [*range(min(len(firsts), RANGES)), *([len(firsts) - 1] if len(firsts) > RANGES else [])]
    base = page << PAGE_BITS
    again = np.flatnonzero(both & (right > 1))
    phantoms = np.flatnonzero(phantom)
    return PageFindings(
        key=key,
        page=page,
        offered=int(is_offered.sum()),
        offered_again=int(left.sum(dtype=np.int64)) - int(is_offered.sum()),
        arrived=int(both.sum()),
        lost=int(missing.sum()),
        lost_runs=len(firsts),
        duplicated=int(right[both].sum(dtype=np.int64)) - int(both.sum()),
        duplicated_ids=len(again),
        phantom=int(right[phantom].sum(dtype=np.int64)),
        runs=tuple((base + int(firsts[run]), base + int(lasts[run])) for run in kept),
        again=tuple((base + int(n), int(right[n])) for n in again[:EXAMPLES]),
        phantoms=tuple((base + int(n), int(right[n])) for n in phantoms[:EXAMPLES]),
        phantom_page=encode(phantom) if len(phantoms) else b"",
    )


def ranges(pages: Iterable[PageFindings]) -> tuple[tuple[Span, ...], int]:
    """Join the runs of neighbouring pages; return the first RANGES ranges, and the number of all.

    The pages must be in order of key and page.
    """
    spans: list[Span] = []
    total = 0
    last: Span | None = None
    for page in pages:
        total += page.lost_runs
        for first, end in page.runs:
            if last is not None and last.key == page.key and last.last + 1 == first:
                total -= 1
                grown = Span(page.key, last.first, end)
                if spans[-1] == last:
                    spans[-1] = grown
                last = grown
            else:
                last = Span(page.key, first, end)
                if len(spans) < RANGES:
                    spans.append(last)
    return tuple(spans), total


@dataclass(frozen=True, slots=True)
class Example:
    """One id with an anomaly, and the known places of its copies (topic, partition and offset; or
    file and row).
    """

    anomaly: Anomaly
    key: str
    number: int | None
    copies: int
    places: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = "(damaged)" if self.number is None else str(Span(self.key, self.number, self.number))
        times = f" x {self.copies}" if self.anomaly is Anomaly.DUPLICATED else ""
        return f"{self.anomaly} {name}{times}" + (
            f" at {', '.join(self.places)}" if self.places else ""
        )


@dataclass(frozen=True, slots=True)
class Unread:
    """A row without a readable id: its text (quoted, escaped, shortened), why that is no id, and
    its place.
    """

    text: str
    why: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.why}{f', at {self.place}' if self.place else ''})"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The rows of one side without a readable id: how many, how many its SPEC permits (``stated``),
    and the first ones.
    """

    rows: int = 0
    stated: int = 0
    first: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of an audit: counts of rows and ids. ``None``: the given data cannot show it.

    ``damaged`` are the phantoms that are lostack's own messages with a wrong checksum: they have no
    number. No count includes rows without a readable id. ``unseen``: reasons why some rows that
    arrived could not be read (an open transaction, records deleted by retention). ``unknown``:
    reasons why some of what was offered is not known.
    """

    offered: int
    offered_again: int
    arrived: int
    lost: int
    duplicated: int
    duplicated_ids: int
    phantom: int
    reordered: int | None
    stored_twice: int | None
    recorded_twice: int | None
    lost_ranges: tuple[Span, ...] = ()
    lost_ranges_total: int = 0
    examples: tuple[Example, ...] = ()
    unknown: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    damaged: int = 0
    unread_offered: Unreadable = field(default_factory=Unreadable)
    unread_arrived: Unreadable = field(default_factory=Unreadable)

    def count(self, anomaly: Anomaly) -> int:
        """Return the count of an anomaly; 0 for one that an audit does not look for."""
        return {
            Anomaly.LOST: self.lost,
            Anomaly.DUPLICATED: self.duplicated,
            Anomaly.PHANTOM: self.phantom,
        }.get(anomaly, 0)


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict on one semantic, in one sentence."""

    kind: Kind
    reason: str


@dataclass
class Gathering:
    """Collects the findings of all pages."""

    pages: list[PageFindings] = field(default_factory=list)
    damaged: int = 0
    reordered: int = 0

    def findings(self, *, ordered: bool) -> Findings:
        """Return the findings of all pages together, without examples and without the origins of
        copies.
        """
        pages = sorted(self.pages, key=lambda page: (page.key, page.page))
        spans, total = ranges(pages)

        def added(name: str) -> int:
            return sum(getattr(page, name) for page in pages)

        return Findings(
            offered=added("offered"),
            offered_again=added("offered_again"),
            arrived=added("arrived"),
            lost=added("lost"),
            duplicated=added("duplicated"),
            duplicated_ids=added("duplicated_ids"),
            phantom=added("phantom") + self.damaged,
            damaged=self.damaged,
            reordered=self.reordered if ordered else None,
            stored_twice=None,
            recorded_twice=None,
            lost_ranges=spans,
            lost_ranges_total=total,
        )

    def phantoms(self) -> dict[str, Ints]:
        """Return the phantom numbers by key, ascending. They are left out when the order of
        recording is checked.
        """
        found: dict[str, list[Ints]] = {}
        for page in sorted(self.pages, key=lambda page: (page.key, page.page)):
            if page.phantom_page:
                found.setdefault(page.key, []).append(
                    np.flatnonzero(decode(page.phantom_page)) + (page.page << PAGE_BITS)
                )
        return {key: np.concatenate(parts) for key, parts in found.items()}

    def wanted(self) -> dict[tuple[str, int], tuple[Anomaly, int]]:
        """Return the ids to show as examples: (key, number) → (anomaly, copies)."""
        pages = sorted(self.pages, key=lambda page: (page.key, page.page))
        found: dict[tuple[str, int], tuple[Anomaly, int]] = {}
        for anomaly, name in ((Anomaly.DUPLICATED, "again"), (Anomaly.PHANTOM, "phantoms")):
            some = [
                (page.key, number, copies)
                for page in pages
                for number, copies in getattr(page, name)
            ]
            found.update(
                {(key, number): (anomaly, copies) for key, number, copies in some[:EXAMPLES]}
            )
        return found


def rule(found: Findings, semantic: Semantic) -> Ruling:
    """Judge the findings by the promise table.

    The verdict is void if a side has more unreadable rows than its SPEC permits, or if none of its
    rows can be read: then the SPEC does not fit the data. It is void if nothing was offered. If
    only some rows could not be read, a duplicate is certain all the same; a loss is certain if
    everything that arrived was read, and a phantom if everything that was offered is known. If no
    forbidden anomaly is certain then, the verdict is void.
    """
    from harness.judge.verdict import Kind  # noqa: PLC0415 - the whole judge, for a word; most audits are not ruled

    nothing = _nothing_read(found)
    if nothing is not None:
        return Ruling(Kind.VOID, nothing)
    bad = [
        anomaly
        for anomaly in (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.PHANTOM)
        if found.count(anomaly)
    ]
    doubts = {Anomaly.LOST: found.unseen, Anomaly.PHANTOM: found.unknown}
    certain = [anomaly for anomaly in bad if forbids(semantic, anomaly) and not doubts.get(anomaly)]
    if certain:
        told = ", ".join(f"{found.count(anomaly)} {anomaly}" for anomaly in certain)
        return Ruling(Kind.BROKEN, f"{semantic} forbids what was found: {told}")
    if found.unseen or found.unknown:
        return Ruling(
            Kind.VOID,
            f"some records could not be read: {'; '.join((*found.unknown, *found.unseen))}",
        )
    permitted = ", ".join(f"{found.count(anomaly)} {anomaly}" for anomaly in bad)
    aside = "".join(
        f"; {side.rows} unreadable {word}, {side.stated} permitted"
        for word, _, side in _sides(found)
        if side.rows
    )
    return Ruling(
        Kind.KEPT,
        f"{found.arrived} of {found.offered} arrived"
        + (f"; permitted: {permitted}" if bad else "")
        + aside,
    )


def _sides(found: Findings) -> tuple[tuple[str, int, Unreadable], ...]:
    """Return for each side the word for its rows, how many rows were read, and its
    unreadable rows.
    """
    return (
        ("offered", found.offered + found.offered_again, found.unread_offered),
        ("that arrived", found.arrived + found.duplicated + found.phantom, found.unread_arrived),
    )


def _nothing_read(found: Findings) -> str | None:
    """Say why the ids that were read prove nothing, or return ``None``."""
    many = [
        (
            f"{side.rows} of {side.rows + read} rows {word} cannot be read as an id: "
            f"{', '.join(map(str, side.first))}"
        )
        for word, read, side in _sides(found)
        if side.rows > side.stated
    ]
    if many:
        return (
            f"{'; '.join(many)}; correct id=, key= or pattern=, or permit N such rows: unreadable=N"
        )
    for word, read, side in _sides(found):
        if side.rows and not read:
            return f"none of {side.rows} rows {word} could be read as an id: this proves nothing"
    if found.offered == 0:
        return "nothing was offered, so nothing could be lost: this proves nothing"
    return None


def as_text(found: Findings, semantic: Semantic | None) -> str:
    """Return the text for a terminal: one line per count, the lost ids as ranges, examples, the
    verdict.
    """
    twice = (
        ""
        if found.stored_twice is None
        else f": {found.stored_twice} stored twice, {found.recorded_twice} recorded twice"
    )
    lines = [
        f"offered     {found.offered}"
        + (f" (and {found.offered_again} offered again)" if found.offered_again else ""),
        f"arrived     {found.arrived}",
        f"lost        {found.lost}" + _ranges_text(found),
        f"duplicated  {found.duplicated}"
        + (f", of {found.duplicated_ids} ids{twice}" if found.duplicated else ""),
        f"phantom     {found.phantom}"
        + (f", of them {found.damaged} damaged" if found.damaged else ""),
        (
            "reordered   "
            f"{'not known: no order given' if found.reordered is None else found.reordered}"
        ),
    ]
    lines += [f"  {example}" for example in found.examples]
    for word, _, side in _sides(found):
        if side.rows:
            lines.append(f"unreadable  {side.rows} {word} ({side.stated} permitted)")
            lines += [f"  {one}" for one in side.first]
    lines += [f"! {doubt}" for doubt in (*found.unknown, *found.unseen)]
    if semantic is not None:
        ruling = rule(found, semantic)
        lines.append(f"{ruling.kind.upper()}  {semantic}: {ruling.reason}")
    return "\n".join(lines)


def _ranges_text(found: Findings) -> str:
    if not found.lost:
        return ""
    some = ", ".join(str(span) for span in found.lost_ranges[:SHOWN])
    rest = found.lost_ranges_total - min(SHOWN, len(found.lost_ranges))
    return f": {some}" + (f" and {rest} more ranges" if rest else "")


def as_json(found: Findings) -> dict[str, object]:
    """Return the findings as a JSON object."""
    return {
        "offered": found.offered,
        "offered_again": found.offered_again,
        "arrived": found.arrived,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "duplicated_ids": found.duplicated_ids,
        "stored_twice": found.stored_twice,
        "recorded_twice": found.recorded_twice,
        "phantom": found.phantom,
        "damaged": found.damaged,
        "reordered": found.reordered,
        "lost_ranges": [
            {"key": span.key, "first": span.first, "last": span.last} for span in found.lost_ranges
        ],
        "lost_ranges_total": found.lost_ranges_total,
        "examples": [
            {
                "anomaly": str(e.anomaly),
                "key": e.key,
                "number": e.number,
                "copies": e.copies,
                "places": list(e.places),
            }
            for e in found.examples
        ],
        "unreadable": {
            "offered": asdict(found.unread_offered),
            "arrived": asdict(found.unread_arrived),
        },
        "unknown": list(found.unknown),
        "unseen": list(found.unseen),
    }
