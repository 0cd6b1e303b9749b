"""The in-memory system: it exists to test the harness, and says nothing about any real one."""
