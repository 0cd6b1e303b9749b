"""The instrument on a real broker, and how it might be fooled."""
