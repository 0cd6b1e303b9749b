"""List the systems under test: one folder and one line each. Other packages add theirs by entry
points.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "lostack.systems"
"""The group of entry points. Each has a name and the ``module:attribute`` of a
:class:`~harness.interfaces.System`.
"""
SYSTEMS: Final = {
    "activemq": "harness.systems.activemq.about:SYSTEM",
    "artemis": "harness.systems.artemis.about:SYSTEM",
    "flink": "harness.systems.flink.about:SYSTEM",
    "kafka": "harness.systems.kafka.about:SYSTEM",
    "pulsar": "harness.systems.pulsar.about:SYSTEM",
    "spark": "harness.systems.spark.about:SYSTEM",
    "storm": "harness.systems.storm.about:SYSTEM",
    "streams": "harness.systems.streams.about:SYSTEM",
}
"""The systems that lostack brings: name → ``module:attribute`` of its declaration."""
