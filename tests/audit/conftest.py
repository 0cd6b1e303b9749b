"""One Spark for all tests that need one: local[2], loopback only, with the class-data archive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from harness.audit.session import spark_session
from harness.setup.spark import ensure_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give the session; its JVM ends with the tests."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    with spark_session(master="local[2]", say=say, jars=ensure_driver("jdbc:sqlite:", say)) as session:
        yield session
