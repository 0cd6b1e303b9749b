"""On a real broker: what a connection logs in by stands in no history, no log and no report, and
nothing of it is left.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.scenario import Deployment
from harness.model.semantics import Semantic
from harness.report.renderers import write_reports
from harness.saved import load_run
from harness.systems.kafka.security import USER
from scenarios.secured import SECURED
from tests.trust.test_trust import run_cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.saved import CellResult

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
PASSWORD = "an-apple-a-day-keeps-nobody-away"  # noqa: S105 - so that it can be looked for
TRACES: Mapping[str, bytes] = {
    "the password": PASSWORD.encode(),
    "the token of PLAIN": f"\0{USER}\0{PASSWORD}".encode(),
    "the token, as text": base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()),
    "the proof of SCRAM": b"c=biws",
    "a private key": b"PRIVATE KEY",
    "what a broker knows of a password": b"storedKey",
}
"""What would give a secret away."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Sequence[CellResult]:
    """Run cells that log in by PLAIN and by SCRAM, a request of one of which goes over a connection
    of the wire's own.
    """
    wanted = {
        f"none+{Deployment.SASL}",
        f"none+{Deployment.SASL_TLS}",
        f"late-commit+{Deployment.SASL_TLS}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.systems.kafka.security.secrets.token_urlsafe", lambda _: PASSWORD)
        scenarios = [scenario for scenario in SECURED if scenario.id in wanted]
        assert len(scenarios) == len(wanted)
        return run_cells(scenarios, [Semantic.EXACTLY_ONCE], tmp_path_factory.mktemp("reports"))


def test_who_logs_in_is_judged_as_ever(results: Sequence[CellResult]) -> None:
    assert all(result.verdict.green for result in results), [
        result.verdict.reason for result in results
    ]
    assert [result.verdict.kind for result in results].count(Kind.KEPT) == 2
    for result in results:
        steps = {event.api for event in read_history(result.directory / HISTORY).of(kinds.Frame)}
        assert {"SaslHandshake", "SaslAuthenticate"} <= steps


def test_nothing_gives_a_secret_away(results: Sequence[CellResult]) -> None:
    run = results[0].directory.parents[1]
    write_reports(load_run(run))
    files = [file for file in run.rglob("*") if file.is_file()]
    assert len(files) > 30
    assert [
        (file, what)
        for file in files
        for what, trace in TRACES.items()
        if trace in file.read_bytes()
    ] == []
    assert list(run.rglob("secrets")) == []


def test_a_trace_would_be_found(tmp_path: Path) -> None:
    for number, trace in enumerate(TRACES.values()):
        Path(tmp_path, str(number)).write_bytes(b"..." + trace + b"...")
    assert all(
        any(trace in file.read_bytes() for file in tmp_path.iterdir()) for trace in TRACES.values()
    )
