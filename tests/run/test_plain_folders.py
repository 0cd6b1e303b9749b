"""In which folders a server can run that puts their names into URIs and commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.failures import EnvironmentFailure
from harness.run.plain_folders import require_plain_folder


@pytest.mark.parametrize("name", ["my orders", "50%", "a#b", "a[1]", "a\tb"])
def test_a_name_that_it_would_misread_is_refused(name: str) -> None:
    with pytest.raises(EnvironmentFailure, match=r"Storm cannot run in /w/.*--reports"):
        require_plain_folder(Path("/w") / name / "data", "Storm")


@pytest.mark.parametrize("name", ["wörk", "a-b_c.d+e", "20261130-081035", "a,b@c=d:e"])
def test_others_are_fine(name: str) -> None:
    require_plain_folder(Path("/w") / name / "data", "Storm")
