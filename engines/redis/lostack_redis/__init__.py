"""Redis and Valkey, their streams and lists, as an engine of lostack."""
