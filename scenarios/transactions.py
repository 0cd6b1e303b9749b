"""The transaction protocol's own failure points, on one broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.bench import OnWire
from harness.core.prediction import Exactly, Select
from harness.core.scenario import Predicted, Role, Scenario
from harness.core.semantics import Anomaly
from harness.core.settings import EXACTLY_ONCE, EXACTLY_ONCE_WITH_RESULT, PipelineKind, Settings
from harness.core.sign import Sign
from harness.faults import Drop, Kill, Late
from harness.wire.rules import Api
from scenarios.plain import EOS, REQUEST, RESPONSE

PRODUCER = Role.PRODUCER


def exactly_once(*, aborts_first: bool = False, fresh: bool = False) -> Settings:
    """Return the recipe with a producer that goes in step, and a sink that does not absorb what the topic has twice."""
    producer = replace(EXACTLY_ONCE.producer, in_step=True, aborts_first=aborts_first, fresh=fresh)
    return replace(EXACTLY_ONCE_WITH_RESULT, producer=producer)


END = OnWire(PRODUCER, Api.END_TXN, REQUEST)
CONVICTED = "(KAFKA-17754; version 2 of the protocol, which the Java client speaks since 4.0, refuses the late request.)"


def convicted(found: Predicted) -> dict[str, Any]:
    """Return the expectations of a control that a client with version 2 of the protocol passes."""
    passes = {EOS: Predicted(sign=Sign.END_REFUSED, settings=found.settings)}
    return {"expect": {EOS: found}, "by_client": {"java<4": {EOS: found}, "java": passes}}


LATE_COMMIT = Scenario(
    id="late-commit", failure_point="late-transaction-end", group="transactions",
    fault=Late(END, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1), kill=True),
    because="The request to commit arrives when its producer has asked again, and has begun the next transaction: that one "
    "is committed by it, half done. Its producer dies; the successor finds nothing to abort and a cursor that is not past "
    f"the record, and sends it again. {CONVICTED}",
    **convicted(Predicted(duplicated=Exactly(Select.NEXT), control=True, settings=exactly_once())),
)  # fmt: skip

LATE_COMMIT_REVIVES = Scenario(
    id="late-commit-of-an-aborted", failure_point="late-transaction-end", group="transactions",
    fault=Late(replace(END, occurrence=2), OnWire(PRODUCER, Api.PRODUCE, RESPONSE, offset=1)),
    because="The request to commit arrives in the next transaction, which the program then aborts: what had been sent in it "
    f"is visible all the same, beside what the program sends in its place. {CONVICTED}",
    **convicted(Predicted(duplicated=Exactly(Select.NEXT), control=True, also=(Anomaly.RESURRECTED,),
                          settings=exactly_once(aborts_first=True))),
)  # fmt: skip

LATE_ABORT = Scenario(
    id="late-abort", failure_point="late-transaction-end", group="transactions",
    fault=Late(END, OnWire(PRODUCER, Api.PRODUCE, RESPONSE, occurrence=2)),
    because="The request to abort arrives in the next transaction, between a record and its cursor: the record is aborted, "
    f"the cursor is not, and the program is told that both are committed. {CONVICTED}",
    **convicted(Predicted(lost=Exactly(), control=True, settings=exactly_once(aborts_first=True))),
)  # fmt: skip

LATE_COMMIT_FENCED = replace(
    LATE_COMMIT, id="late-commit+fresh",
    because="Each transaction has a producer of its own, and each of those a higher epoch: the late request is refused.",
    expect={EOS: Predicted(sign=Sign.END_REFUSED, settings=exactly_once(fresh=True))}, by_client={},
)  # fmt: skip

END_LOST = Scenario(
    id="transaction-end-lost", failure_point="transaction-end-lost", group="transactions", fault=Drop(END),
    because="The request to commit never arrives. The client asks again, and that is all.",
    expect={EOS: Predicted(sign=Sign.ENDED_AGAIN)},
)  # fmt: skip

END_ACK_LOST = Scenario(
    id="transaction-end-ack-lost", failure_point="transaction-end-ack-lost", group="transactions",
    fault=Drop(OnWire(PRODUCER, Api.END_TXN, RESPONSE)),
    because="The transaction is committed and the answer lost. The client asks again, and a coordinator that has committed "
    "says so once more.",
    expect={EOS: Predicted(sign=Sign.ENDED_AGAIN)},
)  # fmt: skip

OFFSETS_CRASH_BEFORE = Scenario(
    id="processor-crash-before-offsets", failure_point="processor-crash-in-transaction", group="transactions",
    pipeline=PipelineKind.TOPIC_TO_TOPIC, fault=Kill(OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, REQUEST), (Role.PROCESSOR,)),
    because="The result is in the transaction, its position never gets there, and the processor dies: both are aborted.",
    expect={EOS: Predicted(sign=Sign.ABORTED)},
)  # fmt: skip

OFFSETS_CRASH_AFTER = replace(
    OFFSETS_CRASH_BEFORE, id="processor-crash-after-offsets",
    fault=Kill(OnWire(Role.PROCESSOR, Api.TXN_OFFSET_COMMIT, RESPONSE), (Role.PROCESSOR,)),
    because="Result and position are in the transaction, and the processor dies before it commits: a position that is "
    "pending is not a position, and the successor aborts it with the result.",
)  # fmt: skip

TRANSACTIONS = (
    LATE_COMMIT,
    LATE_COMMIT_REVIVES,
    LATE_ABORT,
    LATE_COMMIT_FENCED,
    END_LOST,
    END_ACK_LOST,
    OFFSETS_CRASH_BEFORE,
    OFFSETS_CRASH_AFTER,
)
