"""PostgreSQL as a sink: a real server."""
