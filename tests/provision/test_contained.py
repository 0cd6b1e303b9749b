"""What a program is run by in a container: the Java of its image, and jars and packages that are
seen where they lie here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision import environments
from harness.provision.clients import ClientSetup
from harness.provision.images import ON_TOP, OWN
from harness.provision.java_program import JavaProgram
from harness.runtimes.interface import JAVA_IMAGE, PROGRAMS_IMAGE
from harness.stages.clients.bridge import COMMAND

ARCHIVE = Path("/cache/archive/classes.jsa")
BRIDGE = JavaProgram(
    Path("/jdk/bin/java"),
    ("-Xmx1m", f"-XX:SharedArchiveFile={ARCHIVE}"),
    (Path("/cache/a/1.jar"), Path("/cache/a/2.jar"), Path("/cache/b/3.jar")),
    "lostack.Bridge",
    ARCHIVE,
)
SEEN = (Path("/cache/a"), Path("/cache/b"), Path("/cache/archive"))


def test_a_program_on_jars_is_the_same_but_for_its_java() -> None:
    """Flags of the JVM stand before its class path, and the program's words last; every file that
    it reads is in a folder.
    """
    words = BRIDGE.command("go", flags=("-Dx=y",))
    assert words == (
        "/jdk/bin/java",
        "-Xmx1m",
        "-XX:SharedArchiveFile=/cache/archive/classes.jsa",
        "-Dx=y",
        "-cp",
        "/cache/a/1.jar:/cache/a/2.jar:/cache/b/3.jar",
        "lostack.Bridge",
        "go",
    )
    inside = BRIDGE.contained()
    assert inside.command("go", flags=("-Dx=y",)) == ("java", *words[1:])
    assert inside.folders == BRIDGE.folders == SEEN


def test_a_stage_with_a_jvm_beside_it_is_of_the_image_with_a_java() -> None:
    here = ClientSetup.beside("1.0", BRIDGE)
    assert json.loads(here.variables[COMMAND]) == list(BRIDGE.command())
    assert (here.image, here.folders) == (PROGRAMS_IMAGE, ())
    there = here.contained()
    assert json.loads(there.variables[COMMAND]) == list(BRIDGE.contained().command())
    assert (there.version, there.image, there.folders) == ("1.0", JAVA_IMAGE, SEEN)
    assert ON_TOP[JAVA_IMAGE] == PROGRAMS_IMAGE
    assert JAVA_IMAGE in OWN


def test_a_client_in_an_environment_of_its_own_comes_before_what_the_image_has(
    tmp_path: Path,
) -> None:
    """By the image's own interpreter; a client of the image itself needs nothing."""
    packages = tmp_path / "env" / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    there = ClientSetup("2.0", str(tmp_path / "env" / "bin" / "python")).contained()
    assert (there.python, there.image, there.folders) == (None, PROGRAMS_IMAGE, (packages,))
    assert there.variables == {"PYTHONPATH": f"{packages}:/opt/lostack"}
    bare = ClientSetup("3.0")
    assert bare.contained() == bare


def test_an_environment_without_packages_is_told(tmp_path: Path) -> None:
    """A folder that is not there would be made, empty, where the container is to see it."""
    with pytest.raises(
        EnvironmentFailure,
        match=r"^the environment of .* has no packages: remove it and try again$",
    ):
        environments.packages(str(tmp_path / "bin" / "python"))
