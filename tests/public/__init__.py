"""The public package lostack."""
