"""Who may control a wire: whoever knows its secret, and nobody else on the machine.

What is told over the control connection stays below the run's folder, and within the registry.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.wire.control import WireControl, argv
from harness.wire.door import REFUSED, SECRET, WORDS, new_secret
from harness.wire.messages import Route, Tls, WireError
from harness.wire.rules import Action, Rule
from tests.wire.conftest import WireProcess
from tests.wire.stranger import knock, places

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[WireProcess]:
    """A wire with a folder of its own."""
    running = WireProcess.start(tmp_path / "run")
    yield running
    assert running.stop() == 0


def a_line_of_code(victim: Path) -> list[str]:
    """Return the calls that append a line to any file, and that import any module."""
    cell = {"cell_id": "c", "key": "k", "history_path": str(victim)}
    route = {"name": "r", "node": "n", "role": "producer", "listen_port": 0, "upstream_port": 1}
    rule = Rule("\n$(touch here)\n", Action.HOLD).to_json()
    calls = [
        ("open_cell", cell),
        ("arm", {"cell_id": "c", "rule": rule}),
        ("add_route", {**route, "protocol": "antigravity:fly"}),
    ]
    return [
        json.dumps({"id": number, "verb": verb, "args": args})
        for number, (verb, args) in enumerate(calls)
    ]


def test_another_user_cannot_control_a_wire(wire: WireProcess, tmp_path: Path) -> None:
    """No file is written for whoever does not know the secret, and nothing is answered."""
    victim = tmp_path / "start-up-file"
    victim.write_text("as it was\n")
    answers = knock(wire.process.pid, a_line_of_code(victim), wire.address)
    assert victim.read_text() == "as it was\n"
    assert not any('"ok"' in answer for answer in answers)
    assert wire.control.routes() == ()


def test_a_port_is_closed_to_whoever_does_not_know_the_secret(tmp_path: Path) -> None:
    """Where the wire listens on a port, as in a container, the secret alone decides."""
    wire = WireProcess.start(tmp_path / "run", "--control-port", "0")
    victim = tmp_path / "run" / "start-up-file"
    assert isinstance(wire.address, int)
    for first in ([], ["0" * WORDS], ["x" * (1 << 20)]):
        answers = knock(wire.process.pid, [*first, *a_line_of_code(victim)])
        assert [json.loads(answer) for answer in answers] in (
            [{"push": "failed", "because": REFUSED}],
            [],
        )
    assert not victim.exists()
    assert wire.control.routes() == ()
    wrong = WireControl.connect(wire.address, new_secret())
    with wrong, pytest.raises(WireError, match="its secret is wrong"):
        wrong.routes()
    assert wire.stop() == 0


def test_the_secret_is_in_no_command_line_and_only_its_user_may_reach_the_socket(
    wire: WireProcess,
) -> None:
    told = Path(f"/proc/{wire.process.pid}/cmdline").read_text(encoding="utf-8")
    assert wire.secret not in told
    assert not any(isinstance(place, int) for place in places(wire.process.pid))
    folder = Path(str(wire.address)).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_uid == os.getuid()


def test_a_deep_folder_is_no_hindrance(tmp_path: Path) -> None:
    """The kernel takes no path of a socket above 107 bytes."""
    wire = WireProcess.start(tmp_path / ("deep" * 40) / ("deeper" * 20))
    assert len(str(wire.address)) > 200
    assert wire.control.routes() == ()
    assert wire.stop() == 0
    assert not Path(str(wire.address)).parent.exists()


def test_a_wire_without_a_secret_does_not_start(tmp_path: Path) -> None:
    done = subprocess.run(argv(tmp_path, tmp_path), check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"wire: the variable {SECRET} must hold the control connection's secret\n"


@pytest.mark.parametrize(
    "told",
    [
        "/etc/lostack",
        "{run}/../outside.jsonl",
        "{run}",
        "{run}/link/outside.jsonl",
        "{run}/linked.jsonl",
        "{run}/pipe",
        "{run}/folder",
    ],
)
def test_a_history_lies_below_the_folder_of_the_run(
    wire: WireProcess, tmp_path: Path, told: str
) -> None:
    """Even whoever knows the secret can write nowhere else, by no link, and to no pipe."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (run / "link").symlink_to(outside)
    (run / "linked.jsonl").symlink_to(outside / "file")
    (run / "folder").mkdir()
    os.mkfifo(run / "pipe")
    with pytest.raises(WireError, match=r"the folder of the run|the wire does not use") as refused:
        wire.control.open_cell("c", "k", Path(told.format(run=run)))
    assert "\n" not in str(refused.value)
    assert list(outside.iterdir()) == []
    wire.control.open_cell("c", "k", run / "new" / "wire.jsonl")


def test_a_run_may_itself_lie_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    wire = WireProcess.start(tmp_path / "run")
    wire.control.open_cell("c", "k", tmp_path / "run" / "cell" / "wire.jsonl")
    assert (tmp_path / "real" / "cell" / "wire.jsonl").exists()
    assert wire.stop() == 0


def test_a_kept_wire_serves_another_run_once_it_is_admitted(tmp_path: Path) -> None:
    """A check's cells go on with the wire of its dry run, whose folder is another one."""
    wire = WireProcess.start(tmp_path / "dry")
    later = tmp_path / "later" / "cell" / "wire.jsonl"
    with pytest.raises(WireError, match="is not below the folder of the run"):
        wire.control.open_cell("c", "k", later)
    wire.control.admit(tmp_path / "later")
    wire.control.open_cell("c", "k", later)
    assert later.exists()
    wire.control.open_cell("d", "l", tmp_path / "dry" / "cell" / "wire.jsonl")
    with pytest.raises(WireError, match="is not below the folder of the run"):
        wire.control.open_cell("e", "m", tmp_path / "elsewhere" / "wire.jsonl")
    assert wire.stop() == 0


@pytest.mark.parametrize("which", ["certificate", "authorities", "users"])
def test_a_route_reads_no_files_of_others(wire: WireProcess, tmp_path: Path, which: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("{}")
    files = {"certificate": "", "authorities": "", which: str(outside)}
    users, tls = files.get("users", ""), Tls(files["certificate"], files["authorities"])
    route = Route("r", "n", "producer", 0, 1, protocol="kafka", tls=tls, users=users)
    with pytest.raises(WireError, match="is not below the folder of the run"):
        wire.control.add_route(route)
    assert wire.control.routes() == ()


@pytest.mark.parametrize("name", ["antigravity:fly", "os:abort", "tests.wire.small:Small", ""])
def test_a_protocol_comes_from_the_registry(wire: WireProcess, name: str) -> None:
    with pytest.raises(WireError, match="the wire does not read"):
        wire.control.add_route(Route("r", "n", "producer", 0, 1, protocol=name))
