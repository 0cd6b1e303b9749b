"""The extent of a topic, asked of its brokers by Kafka's own admin client in Spark's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.audit.extents import ANSWER_WITHIN_MS, extent_from
from harness.audit.failures import AuditError
from harness.audit.session import one_line
from harness.audit.spec import shown

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import SparkSession

    from harness.audit.extents import Extent
    from harness.audit.spec import Rows

HINTS: Final = {
    "UnknownTopicOrPartitionException": "there is no such topic",
    "TimeoutException": "no broker answers there",
    "ConfigException": "that address is none",
    "TopicAuthorizationException": "no permission to read it",
    "GroupAuthorizationException": "no permission to read it",
    "SaslAuthenticationException": "the broker refuses the user",
    "ClusterAuthorizationException": "no permission to read it",
}


def extent_of(spark: SparkSession, side: Rows) -> Extent:
    """Ask the brokers for the extent of a topic.

    Raises:
        AuditError: no broker answers, there is no such topic, or no permission.
    """
    jvm: JVMView = spark._jvm  # noqa: SLF001 - PySpark's one way to Java
    properties = jvm.java.util.Properties()
    for name, value in side.more.items():
        properties.setProperty(name.removeprefix("kafka."), value)
    for name, value in {
        "bootstrap.servers": side.at,
        "request.timeout.ms": str(ANSWER_WITHIN_MS // 3),
        "default.api.timeout.ms": str(ANSWER_WITHIN_MS),
    }.items():
        properties.setProperty(name, value)
    admin = None
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        return _extent(jvm, admin, side)
    except Exception as error:
        said = one_line(error)
        hint = next((hint for name, hint in HINTS.items() if name in said), None)
        if hint is None and not hasattr(error, "java_exception") and not hasattr(error, "_origin"):
            raise
        raise AuditError(f"cannot read {shown(side.text)}: {hint or said}") from error
    finally:
        if admin is not None:
            admin.close(jvm.java.time.Duration.ofSeconds(1))


def _extent(jvm: JVMView, admin: JavaObject, side: Rows) -> Extent:
    names = jvm.java.util.ArrayList()
    names.add(side.topic)
    described = admin.describeTopics(names).allTopicNames().get().get(side.topic)
    partitions = sorted(part.partition() for part in described.partitions())
    kinds = jvm.org.apache.kafka.clients.admin.OffsetSpec
    starts = _offsets(
        jvm, admin, side.topic, partitions, kind=kinds.earliest(), isolation="READ_COMMITTED"
    )
    ends = _offsets(
        jvm, admin, side.topic, partitions, kind=kinds.latest(), isolation="READ_UNCOMMITTED"
    )
    stable = _offsets(
        jvm, admin, side.topic, partitions, kind=kinds.latest(), isolation="READ_COMMITTED"
    )
    return extent_from(
        side.topic, starts, stable, ends, compacted=_compacted(jvm, admin, side.topic)
    )


def _offsets(
    jvm: JVMView,
    admin: JavaObject,
    topic: str,
    partitions: list[int],
    *,
    kind: JavaObject,
    isolation: str,
) -> dict[int, int]:
    wanted = jvm.java.util.HashMap()
    for partition in partitions:
        wanted.put(jvm.org.apache.kafka.common.TopicPartition(topic, partition), kind)
    level = getattr(jvm.org.apache.kafka.common.IsolationLevel, isolation)
    found = (
        admin.listOffsets(wanted, jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level))
        .all()
        .get()
    )
    return {
        p: found.get(jvm.org.apache.kafka.common.TopicPartition(topic, p)).offset()
        for p in partitions
    }


def _compacted(jvm: JVMView, admin: JavaObject, topic: str) -> bool:
    """Whether old copies of a key may be removed; not known (False) where the configuration may not
    be read.
    """
    resource = jvm.org.apache.kafka.common.config.ConfigResource(
        getattr(jvm.org.apache.kafka.common.config, "ConfigResource$Type").TOPIC, topic
    )
    wanted = jvm.java.util.ArrayList()
    wanted.add(resource)
    try:
        entry = admin.describeConfigs(wanted).all().get().get(resource).get("cleanup.policy")
    except Exception as error:
        if "AuthorizationException" in one_line(error):
            return False
        raise
    return entry is not None and "compact" in entry.value()
