"""One Spark for all tests that need one: local[2], loopback only, with the class-data archive; and
both engines.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from harness.audit.session import spark_session
from harness.provision.spark import ensure_driver
from tests.audit.cases import here, on_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.audit.cases import Auditor


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the session; its JVM ends with the tests."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    with spark_session(
        master="local[2]", say=say, jars=ensure_driver("jdbc:sqlite:", say)
    ) as session:
        yield session


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.spark)])
def auditor(request: pytest.FixtureRequest) -> Auditor:
    """Give both engines, one after the other."""
    if request.param == "here":
        return here
    session: SparkSession = request.getfixturevalue("spark")
    return lambda offered, arrived: on_spark(session, offered, arrived)
