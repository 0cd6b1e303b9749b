"""The wire: a protocol-aware proxy between the nodes. See :mod:`harness.wire.control`."""
