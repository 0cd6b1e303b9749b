"""The import directions of the package: a contract of their own kind, and tests that the contracts can fail."""
