"""Write every reading into a Parquet file of its own, then commit its position. Knows nothing of
lostack.
"""

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
from kafka import KafkaConsumer
from pyarrow import parquet

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
consumer = KafkaConsumer(
    "readings",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="archive",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    name = f"{message.partition}-{message.offset}.parquet"
    parquet.write_table(pa.Table.from_pylist([json.loads(message.value)]), folder / f"{name}.part")
    (folder / f"{name}.part").replace(folder / name)
    consumer.commit()
