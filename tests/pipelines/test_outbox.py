"""The recipe of the outbox: what its page proposes, and its script where it cannot work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from harness.pipelines import read_pipeline

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "outbox"
PAGE: Final = ROOT / "docs" / "recipe-outbox.md"


def test_two_programs_are_declared_as_the_page_says(tmp_path: Path) -> None:
    [two] = re.findall(r"`(command = \"[^`]*relay[^`]*\")`", PAGE.read_text(encoding="utf-8"))
    text = (EXAMPLE / "pipeline.toml").read_text(encoding="utf-8")
    one = 'command = "{python} shop.py {port}"'
    assert one in text
    file = tmp_path / "pipeline.toml"
    file.write_text(text.replace(one, two), encoding="utf-8")
    producer, consumer = read_pipeline(file).stages
    assert (producer.role, consumer.role) == ("producer", "consumer")
    assert "{port}" in " ".join(producer.words)


def test_a_database_without_a_folder_says_why(tmp_path: Path) -> None:
    """Root starts the server as another user, who must reach its folder; anybody must write it."""
    folder = tmp_path / "db"
    folder.mkdir()
    folder.chmod(0o555)
    tmp_path.chmod(0o700)
    ended = subprocess.run(
        [EXAMPLE / "database.sh", folder, "1"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert re.fullmatch(
        rf"database.sh: uid \d+, as which the server runs, cannot write {re.escape(str(folder))}: "
        r"open the folders above it \(chmod a\+x\), or choose one that all can reach\n",
        ended.stderr,
    )
