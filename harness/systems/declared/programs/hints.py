"""Say what the wire saw that may explain why a stage of a declared pipeline is not ready, or does
not work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.pipelines.dialects import SPOKEN, Moment
from harness.protocols.kafka.steps import LOGIN, Api, error_name
from harness.protocols.recognising import NAMES, TLS, recognise
from harness.wire.protocol import UNKNOWN

if TYPE_CHECKING:
    from harness.model.scenario import Role
    from harness.systems.declared.scene import Scene

SAYS_READY: Final = 'set ready = "..." to a text that it prints when it reads'
"""The advice for a program whose requests do not show when it is ready."""


class Hints:
    """Explains why one stage is not ready."""

    def __init__(self, scene: Scene, role: Role) -> None:
        self._scene = scene
        self._role = role

    def why_unready(self, *, ended: bool) -> str:
        """Say what the wire saw that may explain why the stage does not work; an empty text if
        nothing does. ``ended``: whether its program has ended.
        """
        if why := self._why_not_let_in():
            return why
        conns = self._scene.so_far.of(kinds.Conn)
        if any(e.role == self._role and e.node not in self._services for e in conns):
            return self._why_connected()
        at = f"it sent no request to {self._scene.brokers.bootstrap(self._role)}"
        if ended:
            return at
        return (
            f"{at}: pass {{bootstrap}} to it as an argument or in its environment; if it only "
            "takes long to start, set ready_within_s"
        )

    @property
    def _services(self) -> set[str]:
        return {service.name for service in self._scene.pipeline.services}

    def unread(self) -> bool:
        """Say whether the wire has given up reading a connection of the stage. That voids the cell,
        and waiting does not help.
        """
        unread = self._scene.so_far.of(kinds.Undecodable)
        return any(event.role == self._role and event.api == UNKNOWN for event in unread)

    def _why_connected(self) -> str:
        """Say what a stage that is connected did not do; an empty text if it sends or reads."""
        scene, role, seen = self._scene, self._role, self._scene.stages_seen
        if seen.asked(role, scene.pipeline.dialect.label(Moment.SEND)) or seen.fetched(role):
            return ""
        if seen.told_ends(role):
            return (
                "it asked where the topic ends, and fetched nothing from it, as a query of Spark "
                'does while the topic is empty: set position = "elsewhere" in its stage if it '
                f"saves its position outside Kafka's groups, or {SAYS_READY}"
            )
        topics = " or ".join(scene.pipeline.topics)
        if scene.pipeline.reads(role):
            return (
                f"it is connected; check that its topic is {topics}; if it begins to read later "
                f"than that, {SAYS_READY}"
            )
        return (
            f"it is connected; check that it reads its input ({scene.pipeline.input.kind}), and "
            f"check that its topic is {topics}"
        )

    def _why_not_let_in(self) -> str:
        """Say why a broker does not let the stage in; an empty text if nothing is known."""
        role, so_far, otherwise = self._role, self._scene.so_far, self._otherwise
        unread = [event for event in so_far.of(kinds.Undecodable) if event.role == role]
        if stray := [event for event in unread if event.api == UNKNOWN]:
            if stray[0].first is None:  # it began as declared: the wire says what came then
                return str(stray[0].because)
            return self._why_unread(recognise(bytes.fromhex(stray[0].first)))
        if why := [e.because for e in unread if e.api == Api.SASL_HANDSHAKE.label]:
            return str(why[0])
        if (
            self._scene.stages_seen.asked(role, Api.SASL_HANDSHAKE.label)
            and "SASL" not in self._listens
        ):
            return f"it logs in by SASL, but the run's listeners have no SASL: {otherwise}"
        if said := self._why_not_logged_in():
            return said
        refused = [
            str(e.because)
            for e in so_far.of(kinds.Conn)
            if e.role == role and e.phase in (ConnPhase.REFUSED, ConnPhase.CLOSE)
        ]
        return next(
            (because for because in refused if "TLS" in because or "certificate" in because), ""
        )

    def _why_not_logged_in(self) -> str:
        """Say which error the broker gave to the stage's log-in; an empty text if it gave none."""
        for event in self._scene.so_far.of(kinds.Frame):
            if event.role == self._role and event.api in LOGIN and event.error:
                about = (
                    "{mechanism}"
                    if event.api == Api.SASL_HANDSHAKE
                    else "{username} and {password}"
                )
                return (
                    f"the broker refused its log-in ({error_name(int(event.error))}): pass it "
                    f"{about} in its environment"
                )
        return ""

    def _why_unread(self, spoken: str | None) -> str:
        """Say what to set if a connection cannot be read. ``spoken``: its protocol, if known."""
        pipeline = self._scene.pipeline
        known, system = pipeline.dialect.speaks, pipeline.system
        if pipeline.dialect.logs and spoken in (None, TLS, "kafka"):
            said = f"does not speak {known} as the run's listeners do"
            return f"its connection {said}: {self._otherwise}"
        if spoken == TLS:
            return f"it begins with TLS, which the run's listeners on {system} do not have"
        if spoken in SPOKEN[system]:
            return (
                f"it speaks {NAMES[spoken]}, and the run's listeners speak {known}: set protocol = "
                f'"{spoken}" in the declaration\'s [broker]'
            )
        if spoken in NAMES:
            where = " or ".join(f'"{name}"' for name, each in SPOKEN.items() if spoken in each)
            return f"it speaks {NAMES[spoken]}, which {system} does not: set system = {where}"
        can = " or ".join(SPOKEN[system])
        found = f"it speaks {spoken}" if spoken else f"its connection does not speak {known}"
        return f"{found}: on {system} lostack reads {can} (protocol in the declaration's [broker])"

    @property
    def _listens(self) -> str:
        access = self._scene.brokers.access
        return access.protocol if access else "PLAINTEXT"

    @property
    def _otherwise(self) -> str:
        return (
            f"set its security.protocol={self._listens}, or say in the declaration's [security] "
            "what it uses"
        )
