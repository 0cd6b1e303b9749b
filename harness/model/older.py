"""Turns plans of earlier versions into today's form. Every saved plan is read through it.

(Histories of earlier versions are read through :func:`harness.model.places.placed`.)
"""

from __future__ import annotations

from typing import Any, Final

_OF_A_CLUSTER: Final = frozenset({"leader", "follower", "controller", "coordinator"})
"""Roles of a broker that the cluster itself assigns."""


def plan_of_before(data: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``cell.json`` with proofs by name. Up to version 2 the evidence had a
    field for each proof.
    """
    if "proofs" in data:
        return data
    evidence = dict(data["evidence"])
    network, engine = evidence.pop("network", None), evidence.pop("engine", ())
    restarted, fields = (
        evidence.pop("restarted", 0),
        {name: evidence.pop(name, False) for name in _FLAGS},
    )
    proofs: dict[str, dict[str, Any]] = {}
    if network is not None:
        proofs["network-bad"] = network
    if engine:
        proofs["engine-said"] = {"words": engine}
    if restarted:
        proofs["rolled"] = {"count": restarted}
    if _OF_A_CLUSTER & set(evidence["killed"]):
        proofs["part-had"] = {}
    if evidence.get("forgotten"):
        proofs["forgot"] = {}
    return data | {
        "evidence": evidence,
        "proofs": proofs | {_FLAGS[name]: {} for name, told in fields.items() if told},
    }


_FLAGS: Final = {
    "moved": "leader-moved",
    "elected": "preferred-elected",
    "grown": "grown",
    "input_ended": "input-ended",
}
