"""Stages of one's own pipeline that are containers: killed by the engine, judged like any other."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.failures import EnvironmentFailure
from harness.model.history import HISTORY, read_history
from harness.pipelines import read_pipeline
from harness.provision.images import OWN
from harness.systems.declared.system import DeclaredSystem
from tests.pipelines.test_check import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.saved import CellResult

pytestmark = [pytest.mark.docker, pytest.mark.kafka, pytest.mark.timeout(300)]
EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGE = OWN["lostack"]
"""It has a Python with kafka-python in it."""
STORE = Path(__file__).parents[1] / "pipelines" / "programs" / "with-store"
"""A pipeline whose results are in a service's database."""


@pytest.fixture(scope="module")
def system() -> Iterator[DeclaredSystem]:
    """One broker for all of them."""
    found = DeclaredSystem(keep=True)
    yield found
    found.close()


def contained(example: str, folder: Path, image: str = IMAGE) -> Path:
    """Copy the examples, for some take programs of others; the consumer of this one is a container
    now.
    """
    shutil.copytree(EXAMPLES, folder)
    file = folder / example / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    changed = text.replace(
        'command = "{python} consumer.py',
        f'image = "{image}"\ncommand = "{{python}} {{here}}/consumer.py',
    )
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    return file


def check(system: DeclaredSystem, reports: Path, file: Path, point: str) -> CellResult:
    """Run a pipeline dry, then at a failure point."""
    asked = Check(read_pipeline(file), system, reports, "pytest")
    with make_progress(Silent()) as progress:
        dry = asked.dry_run(progress)
        assert dry.verdict.kind is Kind.KEPT, f"without a fault: {dry.verdict.reason}"
        cells, rest = asked.plan(seen_in(dry), [point])
        [found] = asked.faults(cells, rest, progress).results
    return found


def test_a_container_is_killed_and_judged(system: DeclaredSystem, tmp_path: Path) -> None:
    """With its request to commit on the wire: recorded twice, as at-least-once may; by SIGKILL,
    says the engine.
    """
    found = check(system, tmp_path, contained("orders", tmp_path / "mine"), "commit-lost")
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    assert found.judgement.account.duplicated == {found.plan.target}
    [folder] = tmp_path.glob("2*/cells/*commit-lost*")
    ends = [
        e
        for e in read_history(folder / HISTORY, found.plan.id).of(kinds.Node)
        if e.phase is kinds.NodePhase.EXITED
    ]
    assert (ends[0].node, ends[0].signal) == ("consumer", 9)
    versions = json.loads((folder.parents[1] / "run.json").read_text(encoding="utf-8"))["versions"]
    assert versions[f"image {IMAGE}"].startswith(f"{IMAGE} (")


def test_a_mistake_in_a_container_is_convicted(system: DeclaredSystem, tmp_path: Path) -> None:
    """Whose position is saved before its work is done loses the record."""
    found = check(
        system,
        tmp_path,
        contained("mistakes/commit-before-work", tmp_path / "mine"),
        "commit-ack-lost",
    )
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.lost == {found.plan.target}


@pytest.mark.parametrize("anew", ["cell", "once"])
def test_a_service_in_a_container_is_killed_and_comes_back(
    system: DeclaredSystem, tmp_path: Path, anew: str
) -> None:
    """By the engine, with a record on its way to it; who waits for its answer loses nothing. Once:
    both cells have the same.
    """
    shutil.copytree(EXAMPLES / "orders", tmp_path / "examples" / "orders")
    folder = shutil.copytree(STORE, tmp_path / "tests" / "pipelines" / "programs" / "with-store")
    file = folder / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    changed = text.replace(
        'command = "{python} store.py',
        f'image = "{IMAGE}"\nanew = "{anew}"\ncommand = "{{python}} {{here}}/store.py',
    )
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    reports = tmp_path / "reports"
    found = check(system, reports, file, "service-crash")
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    assert found.judgement.account.counts["recorded"] == found.judgement.account.counts["offered"]
    told = [
        e
        for e in read_history(found.directory / HISTORY, found.plan.id).of(kinds.Node)
        if e.node == "store"
    ]
    [end] = [e for e in told if e.phase is kinds.NodePhase.EXITED][:1]
    assert end.signal == 9
    assert [e.phase for e in told].count(kinds.NodePhase.STARTED) == 2, "it was up, and came back"
    left = subprocess.run(
        ["docker", "ps", "--quiet", "--no-trunc", "--filter", f"ancestor={IMAGE}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert len(left) == (1 if anew == "once" else 0)
    system.close()
    assert not subprocess.run(
        ["docker", "ps", "--quiet", "--filter", f"ancestor={IMAGE}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()


def on_stdin(folder: Path) -> Path:
    """Copy the orders; their producer is a container now, built from a folder beside them."""
    shutil.copytree(EXAMPLES / "orders", folder)
    (folder / "sends").mkdir()
    program = (folder / "producer.py").read_text(encoding="utf-8")
    (folder / "sends" / "producer.py").write_text(program, encoding="utf-8")
    (folder / "sends" / "Dockerfile").write_text(
        f'FROM {IMAGE}\nCOPY producer.py /producer.py\nCMD ["python3", "/producer.py"]\n',
        encoding="utf-8",
    )
    file = folder / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    changed = text.replace('command = "{python} producer.py"', 'build = "sends"')
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    return file


def test_a_container_reads_its_standard_input(system: DeclaredSystem, tmp_path: Path) -> None:
    """Its image was built for both runs once; a restarted one gets again what was not acknowledged,
    and the end of the input ends it.
    """
    found = check(system, tmp_path, on_stdin(tmp_path / "mine"), "producer-crash-before-ack")
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    assert found.judgement.account.duplicated == {found.plan.target}
    history = read_history(found.directory / HISTORY, found.plan.id)
    [ended] = history.of(kinds.InputEnded)
    assert (ended.role, ended.incarnation) == ("producer", 2)
    ends = [e for e in history.of(kinds.Node) if e.phase is kinds.NodePhase.EXITED]
    of_producer = [(e.signal, e.status) for e in ends if e.node == "producer"]
    assert of_producer == [(9, None), (None, 0)]
    versions = [
        json.loads(each.read_text(encoding="utf-8"))["versions"]["image built from sends"]
        for each in tmp_path.rglob("run.json")
    ]
    assert len(versions) == 2
    assert len(set(versions)) == 1
    assert "lostack/built-" in versions[0]


def test_a_container_that_gives_up_loses_what_it_was_given(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """It sends each record once, and asks for no result."""
    file = on_stdin(tmp_path / "mine")
    program = file.parent / "sends" / "producer.py"
    text = program.read_text(encoding="utf-8").replace(".get(timeout=60)", "")
    once = text.replace('acks="all"', 'acks="all", retries=0, enable_idempotence=False')
    program.write_text(once, encoding="utf-8")
    found = check(system, tmp_path, file, "request-lost")
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.lost == {found.plan.target}


def test_a_folder_that_cannot_be_built(system: DeclaredSystem, tmp_path: Path) -> None:
    """One line, before anything of the pipeline is started."""
    file = on_stdin(tmp_path / "mine")
    (tmp_path / "mine" / "sends" / "Dockerfile").write_text("FORM scratch\n", encoding="utf-8")
    with pytest.raises(
        EnvironmentFailure, match=r"sends cannot be built \(.*\): correct its Dockerf"
    ):
        check(system, tmp_path, file, "commit-lost")


def test_an_image_that_is_nowhere(
    system: DeclaredSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, before anything of the pipeline is started."""
    monkeypatch.setenv("LOSTACK_PULL", "never")
    file = contained("orders", tmp_path / "mine", "lostack/there-is-no-such:1")
    with pytest.raises(
        EnvironmentFailure, match=r"there-is-no-such:1 is missing and cannot be pulled .*: build it"
    ):
        check(system, tmp_path, file, "commit-lost")
