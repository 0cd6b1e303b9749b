"""Compare what a test has sent with what arrived, and say of each lost record what became of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from harness.model.failures import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.proxy.proxy import Proxy

ONCE = "once"
MOST_TOLD = 10


def assert_delivered(
    sent: Iterable[object],
    rows: Iterable[object],
    *,
    at_least: str | None = None,
    at_most: str | None = None,
    exactly: str | None = None,
    proxy: Proxy | None = None,
) -> None:
    """Fail unless each record that was sent is among the rows ``at_least="once"``,
    ``at_most="once"`` or ``exactly="once"``. A row that was never sent fails, too. Two equal
    records are two.

    Texts, bytes and numbers are the same if they are spelled alike, JSON values if they are equal.

    ``proxy``: tells in the message what it saw of each wrong record.

    Raises:
        AssertionError: a record was lost, or duplicated, or never sent.
        UsageError: not one of the three was named.
    """
    claims = [each for each in (at_least, at_most, exactly) if each is not None]
    if claims != [ONCE]:
        raise UsageError('say one of at_least="once", at_most="once", exactly="once"')
    named = [(_spelled(each), each) for each in sent]
    offered = dict(named)
    asked = Counter(each for each, _ in named)
    there = Counter(_spelled(each) for each in rows)
    wrong = {
        "lost": [] if at_most else list((asked - there).elements()),
        "duplicated": [] if at_least else [each for each in asked if there[each] > asked[each]],
        "never sent": [each for each in there if each not in offered],
    }
    if any(wrong.values()):
        raise AssertionError("\n".join(_told(wrong, offered, proxy)))


def _told(
    wrong: dict[str, list[str]], offered: dict[str, object], proxy: Proxy | None
) -> Iterator[str]:
    """Yield a line for each kind of mistake, and below it what was seen of each record."""
    seen = proxy.records() if proxy is not None else []
    for what, which in wrong.items():
        if not which:
            continue
        yield f"{len(which)} {what}: {', '.join(which[:MOST_TOLD])}"
        for each in dict.fromkeys(which[:MOST_TOLD]):
            ways = [way for way in seen if each in offered and way.is_of(offered[each])]
            if proxy is not None and each in offered and not ways:
                yield f"  {each}: the proxy has seen no such record"
            for way in ways:
                yield f"  {each}: {way.record}"
                yield from (f"    {step}" for step in way.steps)


def _spelled(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return str(bytes(value), "utf-8", "backslashreplace")
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError):  # keys that JSON has not, or a value inside itself
        return repr(value)
