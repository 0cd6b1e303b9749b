"""Put together the parts of a cell on Spark: lostack's producer, Kafka's parts, and a query that
reads a filled topic.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

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
from harness.run.controls import Watching, WireControls
from harness.run.drain import Check, Checks, QuietSink
from harness.run.parts import Parts, When
from harness.run.stages import Producing
from harness.run.who import CellNodes
from harness.stages.settings import STREAM_TO_FILES
from harness.systems.kafka.abilities import FlushedFiles, Ledgers, Proxies, SourceTopic
from harness.systems.kafka.authorities import observe_reading, observe_source
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import UNANSWERED, Ground
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.kafka.stages import StageMaker
from harness.systems.spark.abilities import NextDriver, QueryCheckpoint, SourceRetention
from harness.systems.spark.files import FileSink
from harness.systems.spark.query import FilledTopic, Query, SparkNodes

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.spark.launcher import SparkGround
    from harness.systems.spark.session import SharedSession


def parts_of(
    cell: Cell,
    directory: Path,
    history: HistoryWriter,
    *,
    transport: KafkaTransport,
    services: Services,
    spark: SparkGround,
    session: SharedSession,
) -> Parts:
    """Return the parts of one cell."""
    scene = Scene(cell, directory, history, transport)
    ground = Ground.of(
        scene, services, FileSink(scene) if cell.scenario.pipeline == STREAM_TO_FILES else None
    )
    maker = StageMaker(scene, ground.database.there)
    producing = Producing(history, maker.make(Role.PRODUCER, "producer"))
    query = Query(scene, maker.make(Role.DRIVER, "driver"), spark, session)
    saved_positions = partial(query.saved_positions, ground.database)
    feed = FilledTopic(scene, producing, query, saved_positions)
    broker, cluster = OneBroker(scene, SharedCrash(())), query.cluster
    servers = {
        **broker.servers(),
        **ground.database_node(),
        **({Role.EXECUTOR: lambda: cluster} if cluster else {}),
    }
    nodes = SparkNodes(scene, CellNodes(scene, lambda: (producing.node, query.driver), servers))
    position_trouble = partial(scene.position_trouble, saved_positions)
    watching = Watching(
        scene.progress, lambda: position_trouble() is None, feed.exhausted, UNANSWERED
    )
    abilities: dict[type, object] = {
        PowerLoss: FlushedFiles(scene),
        BadNetwork: Proxies(ground.place),
        Ledger: Ledgers(scene),
        Partitions: SourceTopic(scene),
        Checkpoint: QueryCheckpoint(scene, query),
        Retention: SourceRetention(scene, query),
        Succession: NextDriver(query),
    }
    checks = [
        Check("source", producing.trouble),
        Check("consumer", query.trouble),
        Check("topic", scene.log_trouble, costly=True),
        Check("position", position_trouble, costly=True),
        *ground.sink_checks(),
    ]
    return Parts(
        ground=(*ground.parts(), query, producing),
        feed=feed,
        stages=query,
        controls=WireControls(
            cell,
            scene.load,
            transport.wire,
            directory,
            history,
            scene.so_far,
            nodes,
            watching,
            abilities,
        ),
        drain=lambda: QuietSink(Checks(checks, UNANSWERED), ground.sink.size),
        authorities=(
            partial(observe_source, scene),
            partial(observe_reading, scene, saved_positions, ground.sink.observe),
        ),
        when=When.FILLED,
        armed_before_load=cell.scenario.source_goes_on,
    )
