"""The GitHub action: what its steps run is a script, and that is run here; what it hands over is
what it declares.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "action"
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
USERS = "requirements-users.lock"
CI = {"CI", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"}
ORDERS = ROOT / "examples" / "orders" / "pipeline.toml"
LOSING = ROOT / "examples" / "mistakes" / "commit-before-work" / "pipeline.toml"
LOSES = "declared/commit-before-work/commit-before-work/commit-ack-lost/at-least-once/process"
PROGRAM = """#!/bin/sh
printf '[%s]' "$@" > "$SAID"
echo 'finding 1: ```'
exit "$CODE"
"""


def act(folder: Path, what: str = "run", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script as a step does, in a folder."""
    given = {
        name: value
        for name, value in os.environ.items()
        if name not in CI and not name.startswith("LOSTACK")
    }
    own = {"GITHUB_STEP_SUMMARY": str(folder / "summary"), "GITHUB_OUTPUT": str(folder / "output")}
    return subprocess.run(
        ["bash", str(SCRIPT), what],
        cwd=folder,
        env={**given, **own, **environment},
        text=True,
        capture_output=True,
        check=False,
        timeout=600,
    )


def pretend(folder: Path, code: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it with a lostack that writes down how it was called, and ends with a code."""
    program = folder / "lostack"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    (folder / "pipeline.toml").touch()
    return act(
        folder, LOSTACK=str(program), SAID=str(folder / "said"), CODE=str(code), **environment
    )


@pytest.mark.parametrize("code", [0, 1, 4])
def test_a_step_ends_as_lostack_does(tmp_path: Path, code: int) -> None:
    """Whatever stands between them: the exit code is the step's, and its output; what was printed
    is kept with the reports.
    """
    ended = pretend(tmp_path, code)
    assert ended.returncode == code
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    assert (tmp_path / "said").read_text() == "[check][pipeline.toml][--reports][lostack-reports]"
    assert "finding 1" in (tmp_path / "lostack-reports" / "output.txt").read_text()
    assert not (tmp_path / "summary").exists()  # lostack's check writes it


def test_arguments_are_words_and_never_a_script(tmp_path: Path) -> None:
    """One a line, as they are; a baseline and another folder go with them."""
    lines = "--only\ncommit-lost\n\n--seed\n$(touch gone); `touch gone`"
    assert (
        pretend(
            tmp_path,
            0,
            LOSTACK_ARGUMENTS=lines,
            LOSTACK_BASELINE="known breaks.toml",
            LOSTACK_REPORTS="r",
        ).returncode
        == 0
    )
    said = (tmp_path / "said").read_text()
    words = [
        "check",
        "pipeline.toml",
        "--reports",
        "r",
        "--baseline",
        "known breaks.toml",
        "--only",
        "commit-lost",
        "--seed",
    ]
    assert said == "".join(f"[{word}]" for word in [*words, "$(touch gone); `touch gone`"])
    assert not (tmp_path / "gone").exists()


def test_lines_of_windows_are_words_all_the_same(tmp_path: Path) -> None:
    assert (
        pretend(tmp_path, 0, LOSTACK_ARGUMENTS="--only\r\ncommit-lost\r\n\r\n--strict\r").returncode
        == 0
    )
    words = [
        "check",
        "pipeline.toml",
        "--reports",
        "lostack-reports",
        "--only",
        "commit-lost",
        "--strict",
    ]
    assert (tmp_path / "said").read_text() == "".join(f"[{word}]" for word in words)


def test_a_sweep_has_its_last_lines_in_the_summary(tmp_path: Path) -> None:
    assert pretend(tmp_path, 1, LOSTACK_COMMAND="sweep").returncode == 1
    assert (tmp_path / "summary").read_text() == "```\nfinding 1: ```\n```\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"LOSTACK_COMMAND": "run; true"}, "command is check or sweep, not 'run; true'"),
        ({"LOSTACK_PIPELINE": "none.toml"}, "there is no none.toml"),
        (
            {"LOSTACK_COMMAND": "sweep", "LOSTACK_BASELINE": "x", "LOSTACK_PIPELINE": str(ORDERS)},
            "a baseline is for check",
        ),
        (
            {"LOSTACK_BASELINE": "none.toml", "LOSTACK_PIPELINE": str(ORDERS)},
            "cannot read none.toml",
        ),
    ],
)
def test_a_wrong_input_is_one_line(tmp_path: Path, given: dict[str, str], said: str) -> None:
    """And wrong use; nothing is started."""
    ended = act(tmp_path, **given)
    assert ended.returncode == 2
    [line] = [line for line in (ended.stdout + ended.stderr).splitlines() if line]
    assert said in line


def test_the_key_changes_with_what_is_locked(tmp_path: Path) -> None:
    first, again = act(tmp_path, "key").stdout, act(tmp_path, "key").stdout
    assert first == again
    copy = tmp_path / "copy"
    (copy / ".ci").mkdir(parents=True)
    (copy / ".ci" / "action").write_bytes(SCRIPT.read_bytes())
    for name in ("requirements.lock", "pyproject.toml"):
        (copy / name).write_text((ROOT / name).read_text() + "\n# changed\n")
    other = subprocess.run(
        ["bash", str(copy / ".ci" / "action"), "key"], text=True, capture_output=True, check=True
    )
    assert other.stdout != first


def test_the_action_hands_over_what_it_declares() -> None:
    """Every input is declared once and used; no step has an expression in its script, where it
    would be run.
    """
    declared = re.findall(
        r"^  ([a-z-]+):\n    description", ACTION.split("outputs:")[0], re.MULTILINE
    )
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION))
    assert sorted(declared) == sorted(used)
    scripts = re.findall(r"^      run: (.*)$", ACTION, re.MULTILINE)
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]
    assert {word for script in scripts for word in re.findall(r'action" ([a-z-]+)', script)} == {
        "key",
        "set-up",
        "run",
    }
    handed = set(re.findall(r"^        (LOSTACK_[A-Z]+):", ACTION, re.MULTILINE))
    assert handed == set(re.findall(r"\$\{(LOSTACK_[A-Z]+):-", SCRIPT.read_text())) - {"LOSTACK"}


@pytest.mark.parametrize("installed", ["requirements.lock", "requirements-users.lock"])
def test_what_one_lock_has_installed_is_not_all_of_the_other(
    tmp_path: Path, installed: str
) -> None:
    """Each has a mark of its own, which alone says that nothing is to be done for it."""
    for name in ("Makefile", "pyproject.toml", *(locks := ("requirements.lock", USERS))):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".venv").mkdir()
    asked = dict.fromkeys(locks, False)
    make = ["make", "--dry-run", "-C", str(tmp_path)]
    action = (tmp_path / ".ci" / "action").read_text(encoding="utf-8")
    [users] = re.findall(r"^  ready=(\S+)", action, re.MULTILINE)
    marks = {"requirements.lock": ".venv/.ready", USERS: users}
    (tmp_path / marks[installed]).touch()
    for lock, mark in marks.items():
        ended = subprocess.run(
            [*make, f"LOCK={lock}", mark], capture_output=True, text=True, check=False
        )
        asked[lock] = "set-up" in ended.stdout
        assert "No rule" not in ended.stderr
    assert asked == {lock: lock != installed for lock in locks}


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(600)
def test_a_known_break_fails_nobodys_job(tmp_path: Path) -> None:
    """A pipeline that loses a record fails; named in a baseline it is shown, in the summary too,
    and does not.
    """
    baseline = tmp_path / "known.toml"
    baseline.write_text(
        f'[[known]]\ncell = "{LOSES}"\noutcome = "broken"\nbecause = "it is to be mended"\n',
        encoding="utf-8",
    )
    given = {
        "LOSTACK_PIPELINE": str(LOSING),
        "LOSTACK_ARGUMENTS": "--only\ncommit-ack-lost",
        "LOSTACK_BASELINE": str(baseline),
    }
    red = act(tmp_path, **given | {"LOSTACK_BASELINE": ""})
    assert red.returncode == 1, red.stdout + red.stderr
    assert "commit-ack-lost" in (tmp_path / "summary").read_text()
    assert "how to fix it" in (tmp_path / "summary").read_text()
    known = act(tmp_path, **given)
    assert known.returncode == 0, known.stdout + known.stderr
    assert "1 known breaks, 0 new" in known.stdout
    assert (tmp_path / "lostack-reports" / "latest" / "report.html").exists()


def locked(name: str) -> dict[str, str]:
    """Return the versions of a lock file by package."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE))


def test_a_users_ci_installs_what_a_user_needs() -> None:
    """The same versions as here, all that lostack depends on, and what installs it; but none of the
    tools by which lostack itself is tested.
    """
    users, ours = locked("requirements-users.lock"), locked("requirements.lock")
    assert users.items() <= ours.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(said: list[str]) -> set[str]:
        return {re.match(r"[\w.-]+", each)[0].lower().replace(".", "-") for each in said}  # type: ignore[index]

    [own] = (Requirement(each) for each in extras["all"])
    assert own.name == "lostack"
    brought = [each for extra in own.extras for each in extras[extra]]
    needed = names([*project["dependencies"], *extras["setup"], *brought])
    assert needed <= users.keys()
    assert not users.keys() & (names(extras["dev"]) - needed)
    script = SCRIPT.read_text(encoding="utf-8")
    assert "LOCK=requirements-users.lock" in script
    assert '"$home/requirements-users.lock"' in script
