"""Take from one of several brokers what it leads, while the target's frame is with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.controls import NotFiredError, await_met
from harness.model import events as kinds
from harness.model.scenario import Role
from harness.model.struck import hits_of
from harness.model.takeovers import Takeover
from harness.proofs.takeover import COORDINATED, COPIES, EVERYBODY, FEW, requested_acks
from harness.protocols.kafka.steps import Api
from harness.run.nodes import ServerNode
from harness.systems.declared.brokers.attachment import BOOTSTRAP
from harness.systems.declared.brokers.cluster import ENOUGH, LEAST
from harness.systems.kafka.broker import INTER_BROKER, INTERNAL_TOPICS, leadership, name_of
from harness.systems.kafka.cluster import ORDERLY_S, SYNC_S, answered
from harness.wire.rules import Action, Direction, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.run.controls import WireControls
    from harness.run.who import LastHit
    from harness.runtimes.interface import Exit
    from harness.systems.declared.scene import Scene
    from harness.systems.kafka.broker import Broker
    from harness.systems.kafka.log_copies import Leadership

    Led = tuple[str, int]
    """Topic and partition."""

STORED_S: Final = 20.0
"""How long a leader may take to store a record that the wire has let through."""
REFUSED_S: Final = 20.0
"""How long a leader may take to refuse a record, or to take it from a producer that asks only the
leader.
"""


@dataclass(eq=False)
class BrokerTakenOver(Takeover):
    """Implements :class:`harness.model.takeovers.Takeover`. ``last_hit``: the frame at which the
    fault fired.
    """

    scene: Scene
    controls: WireControls
    brokers: Sequence[Broker]
    last_hit: LastHit
    _number: int = 0
    """The broker that the frame is for."""
    _led: set[Led] = field(default_factory=set)
    """What it led when the fault fired."""
    _about: set[Led] = field(default_factory=set)
    """What of that the frame may be about."""

    # --- the ability ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Find that broker, and write down what it leads.

        Raises:
            NotFiredError: it does not lead what the frame is about: the client has not asked anew.
        """
        hit = self._hit
        if str(hit.node).startswith(BOOTSTRAP):
            raise NotFiredError(f"the frame is for {hit.node}, an address of an unknown broker")
        self._number = int(str(hit.node).rpartition("-")[2])
        about = COORDINATED.get(hit.api or "")
        meant = self.scene.pipeline.topics if about is None else (about,)
        led = {led for led, now in self._say() if now.leader == self._number}
        if (hit.record or about) and not any(topic in meant for topic, _ in led):
            raise NotFiredError(f"the frame is for {hit.node}, which leads nothing that it asks")
        self._led = led
        self._about = {each for each in led if each[0] in meant}

    def struck(self) -> ServerNode:
        """Return that broker."""
        return self._node(self._number)

    def restart_others(self) -> None:
        """Shut each other broker down and start it again when all replicas are in sync; the first
        one, which coordinates, last.
        """
        numbers = sorted((broker.number for broker in self.brokers), reverse=True)
        for number in (each for each in numbers if each != self._number):
            self.await_in_sync()
            broker = self._node(number)
            broker.end()
            broker.restart()

    def followers(self) -> list[ServerNode]:
        """Return a broker that follows that one: then all of the others are needed. The first one,
        which coordinates, is the last choice.
        """
        now = dict(self._now())
        followers = {n for each in self._about for n in now[each].replicas} - {self._number}
        return [self._node(max(followers), Role.FOLLOWER)]

    def hold_copies(self) -> None:
        """Hold every answer to a follower's fetch that has the target."""
        self.controls.put_beside(
            Rule(
                COPIES,
                Action.HOLD,
                api=Api.FETCH,
                direction=Direction.RESPONSE,
                role=INTER_BROKER,
                node=name_of(self._number),
                record=self.scene.load.target.id,
                limit=None,
            )
        )

    def await_ahead(self) -> None:
        """Wait until a follower's copy of the target is held, and the leader's answer has reached
        the client, if that asks only the leader.
        """
        await_met(self._held, STORED_S, "the leader to store the record")
        if requested_acks(self.scene.so_far, self._hit) != EVERYBODY:
            await_met(self._taken, STORED_S, "the leader alone to acknowledge the record")

    def await_short(self) -> None:
        """Wait until a replica of what the frame is about is out of sync, and let the topics need
        all of them.
        """
        pipeline = self.scene.pipeline

        def short() -> bool:
            now = dict(self._now())
            return all(len(now[each].isr) < len(now[each].replicas) for each in self._about)

        await_met(short, SYNC_S, "a follower to be out of sync")
        self._need(lambda _: str(pipeline.broker.copies(pipeline.brokers)))
        self._say()

    def await_refused(self) -> None:
        """Wait until the broker has refused the target, or has taken it from a producer that does
        not ask for more.
        """
        await_met(
            lambda: self._answers(*FEW) or (self._taken() and not self._everybody()),
            REFUSED_S,
            "the leader to refuse the record",
        )
        pipeline = self.scene.pipeline
        self._need(lambda topic: pipeline.topic_settings.to(topic).get(LEAST, str(ENOUGH)))

    def elect(self) -> None:
        """Make the next replica in sync the preferred one of what the frame is about, and elect
        it.
        """
        observer, now = self.scene.kafka.observer, dict(self._now())
        for topic in {topic for topic, _ in self._about}:
            order = {}
            for about, partition in self._about:
                if about == topic:
                    first, *rest = now[about, partition].replicas
                    others = [n for n in (*rest, first) if n != self._number]
                    order[partition] = (*others, self._number)
            observer.reorder_replicas(topic, order)
            await_met(
                partial(self._ordered, topic, order), SYNC_S, "another replica to be preferred"
            )

        def elected() -> bool:
            for topic in {topic for topic, _ in self._about}:
                answered(lambda topic=topic: observer.prefer_leaders((topic,)))  # type: ignore[misc]  # called at once
            return self._is_taken_over(self._about)

        await_met(elected, SYNC_S, "another replica to lead")
        self._say()

    def await_taken_over(self) -> None:
        """Wait until other replicas lead what the broker led, and write down which."""
        await_met(
            lambda: self._is_taken_over(self._led), SYNC_S, "another broker to lead in its place"
        )
        self._say()

    def await_in_sync(self) -> None:
        """Wait until all replicas are in sync again, and write down who leads."""

        def in_sync() -> bool:
            return all(
                now.leader >= 0 and len(now.isr) == len(now.replicas) for _, now in self._now()
            )

        await_met(in_sync, SYNC_S, "all replicas to be in sync")
        self._say()

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _hit(self) -> kinds.Rule:
        if self.last_hit.event is None:
            raise RuntimeError("no rule was hit")
        return self.last_hit.event

    def _now(self) -> Iterator[tuple[Led, Leadership]]:
        """Yield who leads each partition of the pipeline's topics, and the coordinators' logs."""
        observer = self.scene.kafka.observer
        own = INTERNAL_TOPICS if self.brokers else ()
        for topic in (*self.scene.pipeline.topics, *own):
            for partition, now in answered(partial(observer.leaderships, topic)).items():
                yield (topic, partition), now

    def _say(self) -> list[tuple[Led, Leadership]]:
        """Write down who leads what; return that."""
        found = list(self._now())
        for (topic, partition), now in found:
            self.scene.history.write(leadership(topic, partition, now))
        return found

    def _ordered(self, topic: str, order: dict[int, tuple[int, ...]]) -> bool:
        now = dict(self._now())
        return all(now[topic, partition].replicas == each for partition, each in order.items())

    def _is_taken_over(self, led: set[Led]) -> bool:
        return all(
            now.leader >= 0 and now.leader != self._number
            for each, now in self._now()
            if each in led
        )

    def _held(self) -> bool:
        return bool(hits_of(self.scene.so_far, (COPIES,)))

    def _everybody(self) -> bool:
        return requested_acks(self.scene.so_far, self._hit) == EVERYBODY

    def _taken(self) -> bool:
        return self._answers(0)

    def _answers(self, *errors: int) -> bool:
        target = self.scene.load.target.id
        return any(
            e.record == target and e.reached and e.error in errors
            for e in self.scene.so_far.of(kinds.ProduceAnswer)
        )

    def _need(self, least: Callable[[str], str]) -> None:
        """Set how many replicas of a topic must be in sync, by its name, and wait until the broker
        knows.
        """
        observer = self.scene.kafka.observer
        for topic in {topic for topic, _ in self._about}:
            told = least(topic)
            answered(partial(observer.tell_topic, topic, {LEAST: told}))
            asked = partial(observer.told_to, self._number, topic, LEAST)
            await_met(
                lambda asked=asked, told=told: answered(asked) == told,  # type: ignore[misc]  # called at once
                SYNC_S,
                f"{name_of(self._number)} to know {LEAST}={told}",
            )

    def _node(self, number: int, role: Role = Role.BROKER) -> ServerNode:
        broker = next(each for each in self.brokers if each.number == number)
        return ServerNode(
            self.scene.history,
            broker.process,
            partial(self._end, lambda: broker.process().kill()),
            broker.start,
            broker.name,
            role,
            end_it=partial(self._end, lambda: broker.process().terminate(ORDERLY_S)),
        )

    def _end(self, how: Callable[[], Exit]) -> Exit:
        end = how()
        self.scene.kafka.observer.close()  # its connections are to a dead broker
        return end
