"""Make the refusals that the wire gives in a broker's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.wire.protocol import UnableError

if TYPE_CHECKING:
    from harness.wire.cell import FrameInFlight, WireCell
    from harness.wire.rules import Rule


def refusal_of(carried: FrameInFlight, cell: WireCell, rule: Rule, limit: int) -> bytes | None:
    """Make the refusal of a request; ``None``, and the cell is void: it cannot be made."""
    try:
        return carried.session.refuse(carried.frame, carried.payload or b"", str(rule.error))
    except UnableError as error:
        whole = carried.payload is not None
        cell.blind(carried, str(error) if whole else f"it is above the limit of {limit} bytes")
    return None
