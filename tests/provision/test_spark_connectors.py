"""The connectors of Spark to Kafka: with the kafka-clients that it brings, or another one."""

from __future__ import annotations

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision.inside_pyspark import pyspark_version
from harness.provision.jars import read_jar_set
from harness.provision.spark import connectors, ensure_spark

GOOD, BAD = "4.2.0", "4.2.0+3.9.1"


def test_a_connector_is_called_by_its_kafka_clients_only_if_that_is_another_one() -> None:
    """All else in the two lists is the same."""
    found = connectors(GOOD)
    assert found == {GOOD: f"spark-{GOOD}", BAD: f"spark-{BAD}"}
    bad, good = (read_jar_set(found[name]) for name in (BAD, GOOD))
    assert set(bad.sums) ^ set(good.sums) == {"kafka-clients-3.9.1.jar", "kafka-clients-3.9.2.jar"}


@pytest.mark.parametrize(
    ("connector", "other"), [("4.2.0+9.9.9", None), ("9.9.9", None), (BAD, "4.0.1")]
)
def test_one_without_checksums_is_refused_in_one_line(connector: str, other: str | None) -> None:
    """Nothing is run with the connector that is there instead; the line names those that are
    known.
    """
    with pytest.raises(EnvironmentFailure, match="has no checksums") as refused:
        ensure_spark(lambda _: None, other, connector)
    assert "\n" not in str(refused.value)
    assert f"it has {', '.join(connectors(pyspark_version()))}" in str(refused.value)
