"""The settings files of a Storm cluster: Storm's own, ZooKeeper's, and those of its logs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.provision.properties import properties_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PATIENCE_S: Final = 600
"""How long (seconds) Storm waits for a heartbeat before it starts a worker elsewhere: longer than
any cell waits for a worker.

With Storm's default of 30 s, a busy machine starts each worker again and again while the one before
is still starting.
"""
NEVER: Final = 1_000_000
"""How often a supervisor may fail before Nimbus blacklists it: never, because there is no other
supervisor.
"""
JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
LOGGING: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration shutdownHook="disable">
  <appenders>
    <Console name="out"><PatternLayout pattern="%d{{HH:mm:ss,SSS}} %-5p %c{{1}} %t - %m%n"/></Console>
    <File name="file" fileName="{file}">
      <PatternLayout pattern="%d{{HH:mm:ss,SSS}} %-5p %c{{1}} %t - %m%n"/>
    </File>
  </appenders>
  <loggers><root level="info"><appender-ref ref="{to}"/></root></loggers>
</configuration>
"""  # noqa: E501
WORKER_LOG: Final = "${sys:workers.artifacts}/${sys:storm.id}/${sys:worker.port}/worker.log"


@dataclass(frozen=True, slots=True)
class Conf:
    """What the settings depend on."""

    host: str
    ports: Sequence[int]
    """ZooKeeper's, Nimbus's, the supervisor's, the submission desk's, and one for each worker."""
    class_path: str
    shutdown_s: int
    """How long (seconds) a worker may take to end."""
    worker_flags: Sequence[str]
    writer_flags: Sequence[str]
    """Further flags of the JVMs of workers, and of the writers of their logs."""


def write(here: Path, conf: Conf) -> None:
    """Write all settings files below a folder, and make the folders that the daemons need."""
    for folder in (
        "conf",
        "log4j2",
        "tmp",
        "lib",
        "lib-worker",
        "extlib",
        "zookeeper",
        "local",
        "logs",
    ):
        (here / folder).mkdir(parents=True, exist_ok=True)
    (here / "conf" / "storm.yaml").write_text(
        "".join(f"{n}: {json.dumps(v)}\n" for n, v in settings(here, conf).items())
    )
    (here / "log4j2" / "worker.xml").write_text(LOGGING.format(file=WORKER_LOG, to="file"))
    (here / "log4j2" / "cluster.xml").write_text(
        LOGGING.format(file=here / "logs" / "unused.log", to="out")
    )
    (here / "zoo.cfg").write_text(
        properties_file(
            {
                "clientPort": str(conf.ports[0]),
                "clientPortAddress": conf.host,
                "dataDir": str(here / "zookeeper"),
                "tickTime": "500",
                "maxClientCnxns": "0",
                "admin.enableServer": "false",
            }
        )
    )


def settings(here: Path, conf: Conf) -> dict[str, object]:
    """Return Storm's own settings; ``here``: its folder."""
    keeper, nimbus, supervisor, _, *slots = conf.ports
    host = conf.host
    jvm = " ".join((*JVM, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={here / 'tmp'}"))
    return {
        "storm.zookeeper.servers": [host],
        "storm.zookeeper.port": keeper,
        "storm.zookeeper.session.timeout": 10000,
        "storm.zookeeper.connection.timeout": 5000,
        "storm.local.hostname": host,
        "storm.local.dir": str(here / "local"),
        "storm.log4j2.conf.dir": str(here / "log4j2"),
        "storm.workers.artifacts.dir": str(here / "workers"),
        "nimbus.seeds": [host],
        "nimbus.thrift.port": nimbus,
        "nimbus.thrift.threads": 8,
        "nimbus.monitor.freq.secs": 1,
        "storm.nimbus.retry.times": 1,
        "storm.nimbus.retry.interval.millis": 200,
        "storm.nimbus.retry.intervalceiling.millis": 1000,
        "nimbus.task.launch.secs": PATIENCE_S,
        "nimbus.task.timeout.secs": PATIENCE_S,
        "nimbus.supervisor.timeout.secs": PATIENCE_S,
        "supervisor.worker.timeout.secs": PATIENCE_S,
        "supervisor.worker.start.timeout.secs": PATIENCE_S,
        "blacklist.scheduler.tolerance.count": NEVER,
        "nimbus.topology.blobstore.deletion.delay.ms": 600000,
        "supervisor.thrift.port": supervisor,
        "supervisor.slots.ports": slots,
        "supervisor.monitor.frequency.secs": 1,
        "supervisor.heartbeat.frequency.secs": 1,
        "supervisor.worker.shutdown.sleep.secs": conf.shutdown_s,
        "supervisor.memory.capacity.mb": 16384.0,
        "supervisor.cpu.capacity": 1600.0,
        "worker.childopts": " ".join(("-Xmx128m", jvm, *conf.worker_flags)),
        "topology.worker.logwriter.childopts": " ".join(("-Xmx32m", jvm, *conf.writer_flags)),
        # each jar by name: the order of a folder's files is not defined
        "storm.topology.classpath.beginning.enabled": True,
        "topology.classpath.beginning": conf.class_path,
        "task.heartbeat.frequency.secs": 1,
        "task.refresh.poll.secs": 1,
        "storm.metricstore.class": "none",
        "storm.daemon.metrics.reporter.plugins": [],
        "topology.min.replication.count": 1,
        "topology.max.replication.wait.time.sec": 0,
    }
