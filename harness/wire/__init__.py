"""The wire: a protocol-aware proxy between the nodes (section 5 of the design). See
:mod:`harness.wire.control`.
"""
