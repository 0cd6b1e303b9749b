"""Table formats at rest: their logs and data files, read without the engine that wrote them."""
