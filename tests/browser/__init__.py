"""Proves that the report page works in a real headless Chromium, whatever a run puts into it."""
