"""``lostack init`` in a folder that somebody else has made, such as a cloned repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from harness.cli import main
from harness.cli.drafts.compose import read_compose
from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = ("--producer", "cat", "--topic", "t", "--output", "stdout", "--input", "stdin")


def init(folder: Path, *more: str) -> int:
    """Run the command."""
    return main(["init", str(folder), *ANSWERS, *more])


@pytest.mark.parametrize("name", ["pipeline.toml", "pipeline.schema.json"])
@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_written_through_a_link(
    tmp_path: Path, name: str, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = tmp_path / "theirs", tmp_path / "mine"
    folder.mkdir()
    if there:
        target.write_text("mine")
    (folder / name).symlink_to(target)
    assert init(folder, "--no-ci", "--force") != 0
    [line] = capsys.readouterr().err.splitlines()
    assert "link" in line
    assert name in line
    assert (target.read_text() if there else target.exists()) == ("mine" if there else False)
    assert [each.name for each in folder.iterdir()] == [name]


def test_no_workflow_is_written_through_a_linked_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of the workflows is somewhere else."""
    folder, elsewhere = tmp_path / "theirs", tmp_path / "elsewhere"
    (folder / ".github").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / ".github/workflows").symlink_to(elsewhere)
    assert init(folder, "--ci") != 0
    assert "link" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []
    assert [each.name for each in folder.iterdir()] == [".github"]


def test_a_fifo_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipeline.toml")
    assert init(tmp_path, "--no-ci", "--force") != 0
    assert "pipeline.toml" in capsys.readouterr().err
    with pytest.raises(DeclarationError, match=r"cannot read .*pipeline\.toml"):
        read_compose(tmp_path / "pipeline.toml")


def test_an_endless_compose_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "endless.yml").symlink_to("/dev/zero")
    with pytest.raises(DeclarationError, match="cannot read"):
        read_compose(tmp_path / "endless.yml")
    with (tmp_path / "sparse.yml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DeclarationError, match="cannot read"):
        read_compose(tmp_path / "sparse.yml")


def test_a_compose_file_that_grows_by_its_aliases_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    lines += ["services:", "  one:", "    image: redis", "    command: *a9"]
    (tmp_path / "bomb.yml").write_text("\n".join(lines))
    with pytest.raises(DeclarationError, match="more than 100000 values"):
        read_compose(tmp_path / "bomb.yml")


def test_a_compose_file_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.yml").write_text("services: " + "[" * 20_000)
    with pytest.raises(DeclarationError, match="nested too deep"):
        read_compose(tmp_path / "deep.yml")


def test_a_huge_source_is_looked_at_in_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(1 << 40)
    words = ["init", str(tmp_path), "--producer", "{python} a.py", *ANSWERS[2:], "--no-ci"]
    assert main(words) == 0, capsys.readouterr().err
