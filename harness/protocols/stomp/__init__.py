"""STOMP, versions 1.0 to 1.2."""
