"""Find what lies inside the installed PySpark: Spark's jars, and with them Ivy and Janino."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path

from harness.model.extras import require
from harness.model.failures import EnvironmentFailure


def pyspark_version(what: str = "Spark") -> str:
    """Return the version of PySpark. ``what`` needs it.

    Raises:
        EnvironmentFailure: PySpark is not installed.
    """
    require("spark", what)
    return version("pyspark")


def pyspark_home() -> Path:
    """Return the folder of PySpark.

    Raises:
        EnvironmentFailure: PySpark is not installed, or is not whole.
    """
    return jars_of_pyspark("Spark", "spark-core_*.jar")[0].parents[1]


def jars_of_pyspark(what: str, *names: str) -> list[Path]:
    """Return the jars of PySpark with these names (globs). ``what`` needs them.

    Raises:
        EnvironmentFailure: PySpark is not installed, or lacks one of them.
    """
    require("spark", what)
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        found = [sorted(Path(place, "jars").glob(name)) for name in names]
        if all(found):
            return [jar for jars in found for jar in jars]
    raise EnvironmentFailure(
        f"PySpark's installation is incomplete (it has no {' and no '.join(names)}): install it "
        "again"
    )
