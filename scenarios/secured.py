"""The plain pipeline with TLS or a log-in: the same records are lost and duplicated as without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model.scenario import Deployment, Suite
from harness.scenarios.plain import ACK_LOST, COMMIT_ACK_LOST, NONE, REQUEST_LOST
from harness.scenarios.transactions import LATE_COMMIT

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

BECAUSE = {
    Deployment.SASL_TLS: "TLS ends in the wire, and SCRAM passes through it: faults at requests "
    "and answers work as without security.",
    Deployment.SASL: (
        "An unencrypted log-in with a password (PLAIN) adds two frames at the beginning of each "
        "connection."
    ),
    Deployment.TLS: "TLS ends in the wire, which reads the same frames as without TLS.",
}


def secured(base: Scenario, need: Deployment) -> Scenario:
    """Return a scenario, and all that is predicted of it, on brokers that are reached otherwise."""
    return replace(
        base,
        id=f"{base.id}+{need}",
        group="secured",
        deployment=need,
        because=f"{BECAUSE[need]} {base.because}",
        suite=Suite.DAY if need is Deployment.SASL_TLS else Suite.NIGHT,
    )


SECURED = tuple(
    secured(base, need)
    for need in BECAUSE
    for base in (NONE, REQUEST_LOST, ACK_LOST, COMMIT_ACK_LOST, LATE_COMMIT)
)
