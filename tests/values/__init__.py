"""Values that are no text."""
