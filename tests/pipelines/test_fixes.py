"""What would mend a broken promise concerns whoever broke it: where a record was last seen says who that was."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from harness.core.semantics import Semantic
from harness.core.states import LastHop, State
from harness.core.verdict import Kind, Verdict
from harness.pipelines.fixes import fix_of


@pytest.mark.parametrize(("hop", "said"), [
    (LastHop.NEVER_SENT, {"acks=all"}), (LastHop.ACKED, {"acks=all"}), (LastHop.DELIVERED, {"enable.auto.commit=false"}),
    (LastHop.SKIPPED, {"enable.auto.commit=false"}), (LastHop.DELETED, {"retention.ms"}),
])  # fmt: skip
def test_who_lost_a_record_is_who_is_advised(hop: LastHop, said: set[str]) -> None:
    """What retention has deleted is neither the producer's fault nor the consumer's."""
    records = pd.DataFrame({"record": ["a"], "state": [State.LOST], "last_hop": [hop]})
    account = SimpleNamespace(lost=frozenset({"a"}), duplicated=frozenset(), records=records)
    plan = SimpleNamespace(semantic=Semantic.AT_LEAST_ONCE, failure_point="none")
    judgement = SimpleNamespace(account=account)
    told = fix_of(SimpleNamespace(plan=plan, judgement=judgement, verdict=Verdict(Kind.BROKEN, "")))  # type: ignore[arg-type]
    assert told is not None
    assert {word for word in ("acks=all", "enable.auto.commit=false", "retention.ms") if word in told} == said


@pytest.mark.parametrize("by_fault", [True, False])
def test_what_the_fault_has_not_broken_is_not_shown_by_its_failure_point(*, by_fault: bool) -> None:
    """The cell of ours that survives this failure point shows something of it, and of no other break."""
    records = pd.DataFrame({"record": ["a"], "state": [State.LOST], "last_hop": [LastHop.ACKED]})
    account = SimpleNamespace(lost=frozenset({"a"}), duplicated=frozenset(), records=records)
    plan = SimpleNamespace(semantic=Semantic.AT_LEAST_ONCE, failure_point="ack-lost")
    found = SimpleNamespace(
        plan=plan, judgement=SimpleNamespace(account=account), verdict=Verdict(Kind.BROKEN, "", by_fault=by_fault)
    )
    assert ("keeps it: lostack run --only ack-lost" in str(fix_of(found))) is by_fault  # type: ignore[arg-type]
