"""Binary values (Avro and Protobuf): read by their schema into JSON, in which a record's id can be
found.

Import this package so that :class:`harness.model.identity.Identity` can read them. The libraries
are an extra, ``lostack[values]``, and are loaded when a schema needs them.
"""

from __future__ import annotations

from harness.model.identity import READERS, REGISTRY, WHY_UNREAD
from harness.values.avro import avro_reader
from harness.values.protobuf import protobuf_reader
from harness.values.registry import registry_reader, why_unread

READERS |= {"avro": avro_reader, "protobuf": protobuf_reader, REGISTRY: registry_reader}
WHY_UNREAD |= {REGISTRY: why_unread}
