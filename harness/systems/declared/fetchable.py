"""Checks that what a declaration names can be fetched or read, before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.extras import require
from harness.model.failures import EnvironmentFailure
from harness.pipelines.outputs import EXTRAS
from harness.pipelines.refusing import DeclarationError
from harness.provision.jars import read_jar_set
from harness.provision.spark_release import RELEASE
from harness.systems.listing import declaration

if TYPE_CHECKING:
    from harness.pipelines.declaration import Pipeline


def check_broker(system: str, version: str) -> None:
    """Raise DeclarationError if lostack does not have this version of a system."""
    known = declaration(system).versions()
    if version and version not in known:
        raise DeclarationError(
            f"broker: version {version!r}: of {system} lostack has the versions {', '.join(known)}"
        )


def check_declared(pipeline: Pipeline) -> None:
    """Raise DeclarationError if a command cannot be found, or if the version of the broker, a set
    of jars or a PySpark in a command cannot be fetched.

    Raises:
        EnvironmentFailure: the extra that reads its output is not installed.
    """
    pipeline.check_commands()
    kind = pipeline.output.kind
    for extra in EXTRAS.get(kind, ()):
        require(extra, f"an output of kind {kind}")
    check_broker(pipeline.system, pipeline.broker.version)
    for name in pipeline.jars:
        try:
            read_jar_set(name)
        except EnvironmentFailure as error:
            raise DeclarationError(f"{{jars:{name}}}: {error}") from error
    for name in pipeline.pysparks:
        if not RELEASE.fullmatch(name):
            raise DeclarationError(
                f"{{pyspark:{name}}}: {name!r} is no release of PySpark 4 or later, such as 4.0.0"
            )
