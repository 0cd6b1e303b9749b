"""The commands of the command line. They parse options, call the other packages, and print."""

from harness.cli.application import main

__all__ = ["main"]
