"""What a pipeline may claim besides its semantic: an order per key, invariants, and totals instead
of single records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.prediction import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.judge.accounting import Account
    from harness.model.history import History
    from harness.model.plan import Plan


def broken_order(plan: Plan, found: Account) -> str | None:
    """Say which records broke a claimed order per key, or return ``None``. The order is that of
    first recordings.
    """
    if not plan.ordered or not found.reordered:
        return None
    return (
        f"an order per key is claimed: {len(found.reordered)} reordered "
        f"({examples(found.reordered)}: first recorded after a later record of the same key)"
    )


def broken_invariants(history: History) -> str | None:
    """Say which invariants do not hold at rest, or return ``None``."""
    broken = [event for event in history.of(kinds.Invariant) if not event.holds]
    if not broken:
        return None
    return "; ".join(
        f"an invariant does not hold: {e.asked} gives {e.found}, and must give {e.equals}"
        for e in broken
    )


def wrong_totals(found: Account, *, high: bool) -> Iterator[str]:
    """Yield a sentence about each total that is too high (``high``), or about each
    that is too low.
    """
    for total in found.totals:
        count = total.extra if high else total.lost
        if not count:
            continue
        alone = f"; {total.alone} alone would explain it" if total.alone is not None else ""
        waiting = (
            f", and {total.waiting} more may be on their way" if total.waiting and not high else ""
        )
        what = "counted again" if high else "not counted"
        yield (
            f"{total.name} is {total.found}, and should be {total.expected}: at least {count} "
            f"{what}{waiting}{alone}"
        )
