"""Groups of the new protocol (KIP-848): members report their partitions in heartbeats, whose
answers assign partitions.

The same failure points as those of groups that join and sync, with a heartbeat in the place of the
joining; so they stand beside those that they are variants of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.model.scenario import NotApplicable, Predicted, Suite
from harness.stages.consumer_settings import GroupProtocol, Members
from harness.stages.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Expectation, Scenario
    from harness.model.semantics import Semantic

UNKNOWN_TO_CLIENT: Final = NotApplicable(
    "the client does not know the new group protocol (KIP-848)"
)
SINCE: Final = {"confluent-kafka": "2.12", "java": "4.0"}
"""The first version of each client that supports the protocol in its final form."""


def by_heartbeats(
    scenario: Scenario,
    because: str = "",
    expect: Mapping[Semantic, Expectation] | None = None,
    **more: Any,
) -> Scenario:
    """Return a variant of a scenario in which the group is one of the new protocol.

    A static member that died is let in again only when its session is over, so members are dynamic,
    with a session that is soon over. ``expect``: what is expected instead, with settings of the old
    protocol.
    """

    def told(each: Expectation, semantic: Semantic) -> Expectation:
        if not isinstance(each, Predicted):
            return each
        settings = Settings.of(each.settings or scenario.pipeline.recipes[semantic])
        consumer = replace(
            settings.consumer,
            protocol=GroupProtocol.CONSUMER,
            members=Members.DYNAMIC,
            session_timeout_ms=3000,
        )
        return replace(each, settings=replace(settings, consumer=consumer))

    wanted = {
        semantic: told(each, semantic) for semantic, each in (expect or scenario.expect).items()
    }
    nobody: Mapping[Semantic, Expectation] = dict.fromkeys(wanted, UNKNOWN_TO_CLIENT)
    by_client: dict[str, Mapping[Semantic, Expectation]] = {}
    for client, since in SINCE.items():
        own = {
            semantic: told(each, semantic)
            for semantic, each in scenario.by_client.get(client, {}).items()
            if not expect
        }
        by_client |= {f"{client}<{since}": nobody, client: {**wanted, **own}}
    return replace(
        scenario,
        id=f"{scenario.id}+heartbeats",
        suite=Suite.NIGHT,
        expect=nobody,
        by_client=by_client,
        because=because or scenario.because,
        **more,
    )
