"""The commands. Everything a command prints is made elsewhere; this package only connects."""

from harness.cli.application import main

__all__ = ["main"]
