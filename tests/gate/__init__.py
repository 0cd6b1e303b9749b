"""Proves that a later judge says of saved real runs what was said of them when they were saved."""
