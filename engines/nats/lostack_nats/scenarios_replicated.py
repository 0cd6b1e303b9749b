"""NATS JetStream on three servers: a stream, and its consumer, with a copy on each.

Each of the two has a leader of its own. The producer connects to the stream's leader, the consumer
to its own; who loses its connection takes the next server. The servers elect by clocks of their own
(4 to 9 s without a word of the leader), which no setting shortens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.faults import Forget, Kill, NoFault, TakenOver
from harness.judge.queue_selections import OUTLIVED, SERVED_ON, UNTAKEN
from harness.judge.signs import ABSORBED, DELIVERED_AGAIN, NOT_GIVEN_AGAIN, NOT_RESENT, SENT_ANEW
from harness.model.pipeline import Pipeline
from harness.model.prediction import AtLeast, AtMost, Exactly
from harness.model.scenario import Deployment, Predicted, Role, Scenario, Suite
from harness.model.semantics import Semantic
from harness.model.takeovers import Turn
from harness.proofs.power import TOLD_TO_FLUSH
from harness.scenarios.common import ALL_ANSWERED
from harness.scenarios.plain import ALO, AMO, DUPLICATES, EOS, holds
from harness.stages.settings import QUEUE_AT_LEAST_ONCE
from harness.wire.rules import How
from lostack_nats.knowledge import DEDUPLICATED, UNWRITTEN
from lostack_nats.scenarios import ACK, ACKED, MESSAGE, ONCE, PUBACK, PUBLISH, RECIPES, answered
from lostack_nats.scenarios import SCENARIOS as ON_ONE_SERVER

if TYPE_CHECKING:
    from harness.model.scenario import Expectation, Fault

REPLICATED: Final = Pipeline("replicated", "nats", {**RECIPES, Semantic.AT_MOST_ONCE: ONCE})
UNANSWERED: Final = Predicted(lost=AtLeast(most=UNTAKEN))
ANSWERED: Final = answered(QUEUE_AT_LEAST_ONCE)


def _scenario(name: str, fault: Fault, because: str, *expect: Expectation, **more: Any) -> Scenario:
    return Scenario(
        pipeline=REPLICATED,
        id=name,
        because=because,
        expect=dict(zip((AMO, ALO, EOS)[-len(expect) :], expect, strict=True)),
        fault=fault,
        suite=Suite.NIGHT,
        **({"deployment": Deployment.CLUSTER, "group": "replicated"} | more),
    )


SCENARIOS: Final = (
    _scenario(
        "none",
        NoFault(),
        "The baseline of a stream with three copies.",
        Predicted(),
        Predicted(),
        Predicted(),
    ),
    _scenario(
        "leader-crash-before-append",
        TakenOver(PUBLISH, Turn.DIES),
        "The stream's leader dies with the publish not yet seen. Until another server leads, "
        "nobody has the stream's subject, and a publish is refused: who sends once loses each. Who "
        "sends again stores it once.",
        UNANSWERED,
        holds(SENT_ANEW),
        holds(SENT_ANEW),
    ),
    _scenario(
        "leader-crash-before-ack",
        TakenOver(PUBACK, Turn.DIES),
        "The leader answers when most servers have the message, and dies before its PubAck is out. "
        "The next leader has the message: published again it is there twice, unless its id is "
        "known, which the next leader has with the message.",
        Predicted(lost=AtMost(UNTAKEN), sign=NOT_RESENT),
        DUPLICATES,
        holds(DEDUPLICATED),
    ),
    _scenario(
        "leader-crash-before-replication",
        TakenOver(PUBLISH, Turn.DIES_AHEAD),
        "The followers are down; the leader alone writes the message, does not answer, and dies. "
        "The followers come back and elect a leader without it; the old one comes back, and throws "
        "its copy away. Nobody was told that it is stored.",
        UNANSWERED,
        Predicted(duplicated=AtMost(UNWRITTEN), sign=SENT_ANEW),
        holds(SENT_ANEW),
    ),
    _scenario(
        "leader-moved-while-sending",
        TakenOver(PUBLISH, Turn.HANDS_OVER),
        "The leader is told to step down while a publish is on its way to it. Any server takes a "
        "publish, and passes it on to the one that leads.",
        holds(SERVED_ON),
        holds(SERVED_ON),
        holds(SERVED_ON),
    ),
    _scenario(
        "quorum-lost",
        TakenOver(PUBLISH, Turn.SHORT),
        "Two of three servers die. The leader alone writes the message and cannot answer. When the "
        "others are back, what it wrote is stored after all, each attempt once more, unless its id "
        "is known. What was answered before is there. An acknowledgement without an answer that "
        "no majority has stored lets its message come again.",
        Predicted(lost=AtMost(UNTAKEN), sign=NOT_RESENT),
        Predicted(duplicated=AtLeast(most=UNWRITTEN)),
        holds(DEDUPLICATED),
    ),
    _scenario(
        "follower-crash",
        Kill(PUBLISH, (Role.FOLLOWER,), held=How.RELEASE, late=Role.FOLLOWER),
        "A follower is dead until all is sent. Two of three servers are most of them.",
        holds(SERVED_ON),
        holds(SERVED_ON),
        holds(SERVED_ON),
    ),
    _scenario(
        "leader-crash-while-reading",
        TakenOver(MESSAGE, Turn.DIES),
        "The consumer's leader dies with a delivery on its way. The next leader knows that the "
        "message was given to somebody, and gives it again after ack_wait.",
        holds(DELIVERED_AGAIN),
        holds(DELIVERED_AGAIN),
        holds(DELIVERED_AGAIN),
    ),
    _scenario(
        "leader-crash-before-position",
        TakenOver(ACK, Turn.DIES),
        "The consumer's leader dies with the acknowledgement not yet seen. The next one gives the "
        "message again.",
        holds(DELIVERED_AGAIN),
        DUPLICATES,
        holds(ABSORBED),
    ),
    _scenario(
        "leader-crash-after-position",
        TakenOver(ACKED, Turn.DIES),
        "The consumer's leader answers a double ack when most servers have it, and dies before the "
        "answer is out. The next leader does not give the message again. Who acknowledges first, "
        "and does not learn that it was taken, does not work on it.",
        Predicted(lost=Exactly()),
        Predicted(sign=NOT_GIVEN_AGAIN, settings=ANSWERED),
        holds(NOT_GIVEN_AGAIN),
    ),
    _scenario(
        "leader-moved-while-acknowledging",
        TakenOver(ACK, Turn.HANDS_OVER),
        "The consumer's leader is told to step down while an acknowledgement is on its way to it. "
        "Any server passes it on to the one that leads.",
        holds(SERVED_ON),
        Predicted(sign=SERVED_ON, settings=ANSWERED),
        holds(SERVED_ON),
    ),
    _scenario(
        "rolling-restart",
        TakenOver(MESSAGE, Turn.ROLLS),
        "Each server in turn hands over what it leads, ends and comes back, while records flow. "
        "The delivery on its way is lost with its connection, and comes again.",
        Predicted(lost=AtMost(UNTAKEN), sign=DELIVERED_AGAIN),
        Predicted(duplicated=AtMost(UNWRITTEN), sign=DELIVERED_AGAIN),
        holds(DELIVERED_AGAIN),
    ),
)
NEXT: Final = replace(PUBLISH, offset=1)
ALL: Final = (Role.LEADER, Role.FOLLOWER, Role.FOLLOWER)
TRACED: Final = {
    "deployment": Deployment.TRACED_CLUSTER,
    "consumer_starts_after_fault": True,
    "group": "power",
}
DEFAULTS: Final = {**TRACED, "broker_settings": {"sync_interval": "2m"}}
POWER: Final = (
    _scenario(
        "power-loss-on-leader+default",
        Kill(NEXT, ALL[:1], forget=Forget.UNFLUSHED),
        "By default a server flushes every two minutes. The leader comes back without anything; "
        "the other two have all that was answered, and one of them leads.",
        holds(OUTLIVED),
        holds(OUTLIVED),
        **DEFAULTS,
    ),
    _scenario(
        "power-loss-on-all+default",
        Kill(NEXT, ALL, forget=Forget.UNFLUSHED),
        "Control: all three servers lose their power at once, as in one rack. Three copies in "
        "three page caches are none on a disk: all that was answered is gone, and the stream.",
        ALL_ANSWERED,
        ALL_ANSWERED,
        **DEFAULTS,
    ),
    _scenario(
        "power-loss-on-all",
        Kill(NEXT, ALL, forget=Forget.UNFLUSHED),
        "With sync_interval: always each server flushes a message before it counts as stored: "
        "what was answered is on most disks.",
        holds(TOLD_TO_FLUSH),
        holds(TOLD_TO_FLUSH),
        **TRACED,
    ),
)
EVERY: Final = (*ON_ONE_SERVER, *SCENARIOS, *POWER)
"""All scenarios of the package."""
