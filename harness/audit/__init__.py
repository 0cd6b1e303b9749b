"""The audit: it compares what was offered with what arrived, for data that one history cannot hold
(10⁸ ids and more).

The account of a cell (:mod:`harness.judge.accounting`) knows every hop of a few thousand records.
The audit knows two sides only, each a set of rows with a key and a number: a numbered range, a
Kafka topic, Parquet files, a database table. It counts copies of every id, page by page
(:mod:`~harness.audit.pages`), compares the pages of both sides (:mod:`~harness.audit.findings`),
and does so on this machine (:mod:`~harness.audit.here`) or, where that does not hold it or a master
is named, on Spark (:mod:`~harness.audit.on_spark`), by the same functions.
"""

from harness.model.extras import require

require("audit", "an audit")
