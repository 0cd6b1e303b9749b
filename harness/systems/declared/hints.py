"""Say what the wire saw that may explain why a stage of a declared pipeline is not ready, or does
not work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.pipelines.dialects import Moment
from harness.protocols.kafka.steps import Api

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Role
    from harness.systems.declared.scene import Scene

SAYS_READY: Final = 'set ready = "..." to a text that it prints when it reads'
"""The advice for a program whose requests do not show when it is ready."""


class Hints:
    """Explains why one stage is not ready. ``has_ended``: says whether its program has ended."""

    def __init__(self, scene: Scene, role: Role, has_ended: Callable[[], bool]) -> None:
        self._scene = scene
        self._role = role
        self._has_ended = has_ended

    def why_unready(self) -> str:
        """Say what the wire saw that may explain why the stage does not work; an empty text if
        nothing does.
        """
        if why := self._why_not_let_in():
            return why
        if any(e["role"] == self._role for e in self._scene.so_far.of(kinds.CONN)):
            return self._why_connected()
        at = f"it sent no request to {self._scene.brokers.bootstrap(self._role)}"
        if self._has_ended():
            return at
        return (
            f"{at}: pass {{bootstrap}} to it as an argument or in its environment; if it only "
            "takes long to start, set ready_within_s"
        )

    def _why_connected(self) -> str:
        """Say what a stage that is connected did not do; an empty text if it sends or reads."""
        scene, role, sighted = self._scene, self._role, self._scene.sighted
        if sighted.asked(role, scene.pipeline.dialect.label(Moment.SEND)) or sighted.fetched(role):
            return ""
        if sighted.told_ends(role):
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
        role, access, so_far = self._role, self._scene.brokers.access, self._scene.so_far
        spoken = access.protocol if access else "PLAINTEXT"
        otherwise = (
            f"set its security.protocol={spoken}, or say in the declaration's [security] what it "
            "uses"
        )
        unread = [event for event in so_far.of(kinds.UNDECODABLE) if event["role"] == role]
        if any(event["api"] == "unknown" for event in unread):
            return (
                f"its connection does not speak {self._scene.pipeline.dialect.speaks} as the "
                f"run's listeners do: {otherwise}"
            )
        if why := [
            event["because"] for event in unread if event["api"] == Api.SASL_HANDSHAKE.label
        ]:
            return str(why[0])
        if self._scene.sighted.asked(role, Api.SASL_HANDSHAKE.label) and "SASL" not in spoken:
            return f"it logs in by SASL, but the run's listeners have no SASL: {otherwise}"
        refused = [
            str(e["because"])
            for e in so_far.of(kinds.CONN)
            if e["role"] == role and e["phase"] in ("refused", "close")
        ]
        return next(
            (because for because in refused if "TLS" in because or "certificate" in because), ""
        )
