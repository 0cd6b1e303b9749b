"""Storm: a worker dies at each place of a record's way from the spout to the acknowledgement of its tree of tuples."""

from __future__ import annotations

from dataclasses import replace

from harness.controls import OnWire
from harness.faults import Hold, Kill, NoFault
from harness.judge.signs import DELIVERED_AGAIN, RESUMED_PAST
from harness.model.prediction import AtLeast, Permitted
from harness.model.scenario import NotApplicable, Predicted, Role, Scenario, Suite
from harness.protocols.kafka.steps import Api
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, LOSES, REQUEST, RESPONSE, holds
from harness.systems.storm.settings import STORM_AT_LEAST_ONCE, TOPOLOGY, with_topology
from harness.systems.storm.signs import POLLED_AGAIN

WORKER = Role.PROCESSOR
PACE_MS = 100
"""Records come one by one: where nobody follows tuples, what is under way behind the target would be lost with it."""
NOT_OFFERED = NotApplicable("bolts that write to a topic know no transaction: Storm's exactly once is Trident's, of its states")
BASELINE = Scenario(
    id="none", failure_point="none", pipeline=TOPOLOGY, group="storm", fault=NoFault(), pace_ms=PACE_MS,
    because="Without a fault nothing is lost and nothing is duplicated: the baseline.",
    expect={AMO: Predicted(), ALO: Predicted(), EOS: NOT_OFFERED},
)  # fmt: skip


def dies(api: Api, direction: object) -> Kill:
    """Return the death of the worker at a frame about the target."""
    return Kill(OnWire(WORKER, api, direction), (WORKER,))  # type: ignore[arg-type]  # one of the two there are


AFTER_EMIT = replace(
    BASELINE, id="storm-crash-after-emit", failure_point="storm-crash-after-emit", fault=dies(Api.PRODUCE, REQUEST),
    because="The spout has emitted the record, its result is not written, and the worker dies. A tree that nobody has "
    "acknowledged is emitted again by the next worker; without an acker the position was saved before.",
    expect={AMO: LOSES, ALO: holds(DELIVERED_AGAIN), EOS: NOT_OFFERED},
)  # fmt: skip
BEFORE_ACK = replace(
    BASELINE, id="storm-crash-before-ack", failure_point="storm-crash-before-ack", fault=dies(Api.PRODUCE, RESPONSE),
    because="The result is written, its tree not acknowledged yet, and the worker dies: the record is emitted again.",
    expect={AMO: holds(RESUMED_PAST), ALO: DUPLICATES, EOS: NOT_OFFERED},
)  # fmt: skip
COMMIT_LOST = replace(
    BASELINE, id="storm-spout-commit-lost", failure_point="storm-spout-commit-lost", fault=dies(Api.OFFSET_COMMIT, REQUEST),
    because="The spout's commit never arrives and the worker dies. Saved first, nothing of the record was emitted yet; saved "
    "behind its acknowledgement, it is written a second time.",
    expect={AMO: holds(POLLED_AGAIN), ALO: DUPLICATES, EOS: NOT_OFFERED},
)  # fmt: skip
COMMIT_ANSWER_LOST = replace(
    BASELINE, id="storm-spout-commit-answer-lost", failure_point="storm-spout-commit-answer-lost",
    fault=dies(Api.OFFSET_COMMIT, RESPONSE),
    because="The spout's commit is stored and the worker dies before it learns so. Saved first, the position has passed a "
    "record that was never emitted; saved last, the next worker goes on behind it.",
    expect={AMO: LOSES, ALO: holds(RESUMED_PAST), EOS: NOT_OFFERED},
)  # fmt: skip
TIMEOUT = replace(
    BASELINE, id="storm-tuple-timeout", failure_point="storm-tuple-timeout",
    fault=Hold(OnWire(WORKER, Api.PRODUCE, RESPONSE), OnWire(WORKER, Api.PRODUCE, REQUEST, occurrence=2)),
    because="The result is written, and the bolt learns so later than topology.message.timeout.secs: nobody has died, and the "
    "spout emits the record again, and others that wait behind it on the bolt's connection. The time-out must exceed the slowest "
    "work and its longest wait.",
    expect={
        AMO: NotApplicable("without an acker no tuple times out"),
        ALO: Predicted(duplicated=AtLeast(), settings=with_topology(STORM_AT_LEAST_ONCE, timeout_s=2)), EOS: NOT_OFFERED,
    },
)  # fmt: skip
BATCHED = with_topology(STORM_AT_LEAST_ONCE, linger_ms=300, pending=100)
ANCHORED = replace(
    BASELINE, id="storm-crash-in-batch", failure_point="storm-crash-in-batch", fault=dies(Api.OFFSET_COMMIT, RESPONSE),
    because="The bolt's client gathers results for a batch. Its tree is acknowledged when the batch is, the position saved "
    "behind that: the worker dies, and the next one goes on behind it. What was written with it, and not committed, comes again.",
    expect={
        AMO: NotApplicable("nobody follows its tuples: see the control"),
        ALO: Predicted(duplicated=Permitted(), sign=RESUMED_PAST, settings=BATCHED), EOS: NOT_OFFERED,
    },
)  # fmt: skip
UNANCHORED = replace(
    ANCHORED, id="storm-unanchored", failure_point="storm-unanchored", pace_ms=0,
    because="What the bolt emits is anchored to nothing: the tree is done when the bolt is, its position saved, and the result "
    "waits in the client's batch when the worker dies. Sold as at-least-once it must be convicted.",
    expect={ALO: Predicted(lost=AtLeast(), control=True, settings=with_topology(BATCHED, anchored=False, linger_ms=1500))},
)  # fmt: skip
MAIN = tuple(replace(each, suite=Suite.CORE) for each in (BASELINE, AFTER_EMIT))
STORM = (*MAIN, BEFORE_ACK, COMMIT_LOST, COMMIT_ANSWER_LOST, TIMEOUT, ANCHORED, UNANCHORED)
