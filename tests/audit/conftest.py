"""One Spark for all tests that need one: local[2], loopback only, with the class-data archive; and
both engines. A worker of pytest-xdist has all of this folder (``tests/tiers.py``).
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from harness.audit.session import spark_session
from harness.provision.spark import ensure_driver
from tests.audit.cases import here, on_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.audit.cases import Auditor


FOR_LITTLE: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for a few rows: no compiler runs for code that is run once. What users have is tried by
``test_command.py``, as a command.
"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the session; its JVM ends with the tests."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    jars = ensure_driver("jdbc:sqlite:", say)
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # for this JVM, and none that starts later
            patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
            session = stack.enter_context(
                spark_session(master="local[2]", say=say, jars=jars, conf=FOR_LITTLE)
            )
        yield session


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.spark)])
def auditor(request: pytest.FixtureRequest) -> Auditor:
    """Give both engines, one after the other."""
    if request.param == "here":
        return here
    session: SparkSession = request.getfixturevalue("spark")
    return lambda offered, arrived: on_spark(session, offered, arrived)
