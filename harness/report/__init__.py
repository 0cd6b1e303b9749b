"""Renderers: pure functions of a saved run. A new one is a small file and a line in :data:`RENDERERS`."""
