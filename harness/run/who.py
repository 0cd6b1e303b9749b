"""The nodes of a cell: found by role, or by the client id that a node's client uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.controls import Fired, InProgram
from harness.model import events as kinds
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.protocols.acts import Act

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.controls import AtWrite, OnWire, Stop, Target
    from harness.run.nodes import StageNode
    from harness.run.scene import CellScene
    from harness.wire.rules import Rule, StepName

SERVERS = (Role.BROKER, Role.DATABASE)


def by_client(hit: kinds.Rule) -> str:
    """Return the node's name from its client id, ``<key>.<name>.<incarnation>``, or
    ``<key>.<name>`` where all incarnations share one.

    Raises:
        CellFailure: it has another form.
    """
    match str(hit.client).split("."):
        case [_, name, *_]:
            return name
    raise CellFailure(
        f"a fault struck the client {str(hit.client)!r}: a client's name must be "
        "<key>.<node>.<incarnation> or <key>.<node>, to say which node it is"
    )


@dataclass
class LastHit:
    """The wire's event of the frame at which a trigger fired last; ``None``: none has yet."""

    event: kinds.Rule | None = None


@dataclass
class CellNodes:
    """The nodes of a cell. Implements :class:`harness.run.controls.Nodes`.

    ``stages`` returns the present stages; ``others`` returns the nodes of all other roles.
    ``meant`` returns the name of the node whose frame was hit.
    """

    scene: CellScene
    stages: Callable[[], Sequence[StageNode]]
    others: Mapping[Role, Callable[[], Target]]
    meant: Callable[[kinds.Rule], str] = by_client
    words: Mapping[Act, StepName] = field(default_factory=dict)
    """The step of the protocol that each act means."""
    last_hit: LastHit = field(default_factory=LastHit)

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role."""
        if role in self.others:
            return self.others[role]()
        if role in SERVERS:
            raise RuntimeError(
                f"{self.scene.cell.id} kills the {role}, so it must not share it: use "
                "Deployment.OWN"
            )
        return self.stage(role, node)

    def stage(self, role: Role, node: str | None = None) -> StageNode:
        """Return the stage of a role."""
        fitting = [
            stage for stage in self.stages() if stage.role is role and node in (None, stage.name)
        ]
        if not fitting:
            raise RuntimeError(f"{self.scene.cell.id} has no {role} named {node}")
        return fitting[0]

    def rule(self, trigger: OnWire, rule: Rule) -> Rule:
        """Return the rule with its act replaced by the step of the protocol."""
        del trigger
        return replace(rule, api=self.words[rule.api]) if isinstance(rule.api, Act) else rule

    def selector(self, fired: Fired) -> str | None:
        """Return the beginning of the client ids of the process at which a trigger fired."""
        return f"{{key}}.{fired.node}"

    def hit(self, trigger: OnWire, hit: kinds.Rule) -> str:
        """Return the name of the node whose frame was hit, and keep the hit as ``last_hit``."""
        del trigger
        self.last_hit.event = hit
        return self.meant(hit)

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return the stage that has stopped at its failpoint; ``None``: none has yet."""
        if not isinstance(trigger, InProgram):
            raise TypeError(
                f"the writes of lostack's own {trigger.role} are not traced: use one of its "
                "failpoints"
            )
        if all(e.name != trigger.name for e in self.scene.so_far.of(kinds.Failpoint)):
            return None
        victim = next(
            (
                stage
                for stage in self.stages()
                if stage.role is trigger.role and stage.stopped_itself()
            ),
            None,
        )
        return None if victim is None else Fired(self.scene.load.target.id, victim.name, None)

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, object]]:
        """Return ``stop`` unchanged: lostack's own programs can stop themselves in every way."""
        del trigger
        return stop, {}
