"""Programs at full speed: a producer and a consumer of one partition, whose records are known by their positions alone."""
