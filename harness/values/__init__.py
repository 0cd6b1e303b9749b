"""Values that are no text: Avro and Protobuf, read by a schema, as JSON in which an id can be found.

Importing it is what lets :class:`harness.model.identity.Identity` read them. The libraries are an extra, ``lostack[values]``, and
are loaded when a schema asks for them.
"""

from __future__ import annotations

from harness.model.identity import READERS, REGISTRY, WHY_UNREAD
from harness.values.avro import avro_reader
from harness.values.protobuf import protobuf_reader
from harness.values.registry import registry_reader, why_unread

READERS |= {"avro": avro_reader, "protobuf": protobuf_reader, REGISTRY: registry_reader}
WHY_UNREAD |= {REGISTRY: why_unread}
