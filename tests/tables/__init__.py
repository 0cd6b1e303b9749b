"""Proves that a table at rest is what its log says, no more and no less.

``written`` holds small tables as Delta 4.4.0 on Spark 4.2.0 wrote them: ``orders`` (two equal
appends; two batches with an application id, the first of them twice; the second deleted; compacted
by OPTIMIZE), ``by region`` (partitions whose names need escaping) and ``vectors`` (a row deleted by
a deletion vector).
"""
