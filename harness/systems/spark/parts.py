"""Put together the parts of a cell on Spark: lostack's producer, Kafka's parts, and a query that
reads a filled topic.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from harness.abilities import (
    BadNetwork,
    Checkpoint,
    Ledger,
    Partitions,
    PowerLoss,
    Retention,
    Succession,
)
from harness.model.scenario import Role
from harness.run.drain import Check
from harness.run.parts import Parts, ReadersStart
from harness.run.who import CellNodes
from harness.stages.queries import STREAM_TO_FILES, TABLE_FOLDERS
from harness.systems.kafka.abilities import FlushedFiles, Ledgers, Proxies, SourceTopic
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.spark.abilities import NextDriver, QueryCheckpoint, SourceRetention
from harness.systems.spark.files import FileSink
from harness.systems.spark.query import FilledTopic, Query, SparkNodes
from harness.systems.spark.tables import TableSink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.pipeline import Pipeline
    from harness.run.sinks import SinkPart
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.kafka.scene import Scene
    from harness.systems.spark.launcher import SparkGround
    from harness.systems.spark.session import SharedSession

SINKS: Final[Mapping[Pipeline, Callable[[Scene], SinkPart]]] = {
    STREAM_TO_FILES: FileSink,
    **dict.fromkeys(TABLE_FOLDERS, TableSink),
}
"""The sinks that are neither a database nor a topic, by pipeline."""


def parts_of(on_kafka: CellOnKafka, *, spark: SparkGround, session: SharedSession) -> Parts:
    """Return the parts of one cell."""
    scene, scenario = on_kafka.scene, on_kafka.scene.cell.scenario
    if sink := SINKS.get(scenario.pipeline):
        on_kafka = on_kafka.recording_in(sink(scene))
    producing = on_kafka.producing(when=ReadersStart.FILLED)
    query = Query(scene, on_kafka.maker().make(Role.DRIVER, "driver"), spark, session)
    saved_positions = partial(query.saved_positions, on_kafka.database)
    feed, cluster = FilledTopic(scene, producing, query, saved_positions), query.cluster
    servers = {
        **OneBroker(scene).servers(),
        **on_kafka.database_node(),
        **({Role.EXECUTOR: lambda: cluster} if cluster else {}),
    }
    nodes = SparkNodes(scene, CellNodes(scene, lambda: (producing.node, query.driver), servers))
    position_trouble = partial(scene.position_trouble, saved_positions)
    return on_kafka.parts(
        query,
        producing,
        nodes,
        on_kafka.watching(position_trouble, feed.exhausted),
        checks=(
            Check("consumer", query.trouble),
            Check("batch", query.batch_trouble),
            Check("topic", scene.log_trouble, costly=True),
            Check("position", position_trouble, costly=True),
        ),
        positions=saved_positions,
        abilities={
            PowerLoss: FlushedFiles(scene),
            BadNetwork: Proxies(on_kafka.place),
            Ledger: Ledgers(scene),
            Partitions: SourceTopic(scene),
            Checkpoint: QueryCheckpoint(scene, query),
            Retention: SourceRetention(scene, query),
            Succession: NextDriver(query),
        },
        feed=feed,
        when=ReadersStart.FILLED,
        armed_before_load=scenario.source_goes_on,
    )
