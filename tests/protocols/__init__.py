"""The protocols that the wire reads, without a wire."""
