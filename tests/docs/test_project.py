"""What an open project has: a licence, its metadata, and forms for reports."""

from __future__ import annotations

import hashlib
import re
import tomllib
from typing import Any, Final

import pytest
import yaml
from packaging.requirements import Requirement

from tests.docs.pages import ROOT

VERBATIM: Final = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""The SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt."""
DECLARED: Final = {
    "pyspark",
    "testcontainers",
    "kafka-python",
    "toxiproxy-python",
    "pytest",
    "pandas",
}
"""The packages that lostack is built on."""
PUBLISH: Final = ROOT / ".github" / "workflows" / "publish.yml"
FORMS: Final = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def project() -> dict[str, Any]:
    """Return the project's metadata."""
    told: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(told["project"])


def test_the_licence_is_the_standard_text() -> None:
    """Word for word: a changed licence is another one."""
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == VERBATIM
    assert project()["license"] == "Apache-2.0"
    assert project()["license-files"] == ["LICENSE"]


def test_what_lostack_is_built_on_stays_declared() -> None:
    """By the project itself, or by an extra that ``lostack[all]`` brings."""
    extras = project()["optional-dependencies"]
    [everything] = (Requirement(each) for each in extras["all"])
    asked = [
        *project()["dependencies"],
        *(each for extra in everything.extras for each in extras[extra]),
    ]
    assert everything.name == project()["name"]
    assert {Requirement(each).name for each in asked} >= DECLARED


def test_the_citation_is_of_this_version() -> None:
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert told["version"] == project()["version"]
    assert told["license"] == project()["license"]
    assert told["authors"] == project()["authors"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_can_be_filled_in(form: Any) -> None:
    """It has a name, and each field an id of its own and a label."""
    told = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert told["name"]
    assert told["description"]
    fields = [field for field in told["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["attributes"]["label"] for field in fields)


def test_there_are_forms() -> None:
    """One for a wrong verdict, one for everything else."""
    assert [form.stem for form in FORMS] == ["bug", "wrong-verdict"]


def test_a_release_is_checked_and_not_uploaded() -> None:
    """As a user meets it: built, checked, installed without a checkout, and shown by its demo."""
    steps = "\n".join(
        str(step.get("run") or step["uses"])
        for job in yaml.safe_load(PUBLISH.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
    )
    for wanted in ("python -m build", "twine check --strict", "pip install dist/", "lostack demo"):
        assert wanted in steps
    assert "twine upload" not in steps
    assert "pypi-publish" not in steps


def test_every_python_of_the_metadata_is_in_the_workflows() -> None:
    named = {each.rpartition(" ")[2] for each in project()["classifiers"] if "Python :: 3." in each}
    ci = PUBLISH.with_name("ci.yml").read_text(encoding="utf-8")
    assert named == set(re.findall(r'"(3\.\d+)"', ci))
    assert named == set(re.findall(r'"(3\.\d+)"', PUBLISH.read_text(encoding="utf-8")))
