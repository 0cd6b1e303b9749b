"""The steps of Kafka's protocol, and what is known of each when a plan is made."""

from __future__ import annotations

from typing import Final

from harness.wire.protocol import Step
from harness.wire.rules import Api, Direction

_BY_NUMBER: Final = {api.number: api for api in Api if api is not Api.DATABASE_COMMIT}
CELL_APIS: Final = frozenset({Api.PRODUCE, Api.FETCH, Api.OFFSET_COMMIT, Api.END_TXN, Api.TXN_OFFSET_COMMIT})
"""What must be read of every cell, rules or not."""
KEPT_WAITING: Final = frozenset({Api.FETCH, Api.JOIN_GROUP, Api.SYNC_GROUP})
"""Requests that a broker keeps waiting by design: their waits say nothing about the network."""
DURABLE: Final = frozenset({
    Api.PRODUCE, Api.OFFSET_COMMIT, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.END_TXN,
    Api.WRITE_TXN_MARKERS, Api.TXN_OFFSET_COMMIT,
})  # fmt: skip
"""Requests by which a broker's logs come to hold something else."""


def step_of(number: int) -> str:
    """Return what the API of a number is called, also of one that has no name here.

    >>> str(step_of(28)), step_of(75)
    ('TxnOffsetCommit', 'api-75')
    """
    return _BY_NUMBER.get(number) or f"api-{number}"


def _step(api: Api, way: Direction) -> Step:
    asks = way is Direction.REQUEST
    return Step(selects=api.selects(way), waits=api in KEPT_WAITING, movable=asks, durable=asks and api in DURABLE)


STEPS: Final = {(str(api), way): _step(api, way) for api in _BY_NUMBER.values() for way in Direction}
