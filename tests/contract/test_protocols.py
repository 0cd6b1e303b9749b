"""What the wire relies on of every protocol of lostack, without a wire."""

from harness.contract.suite_protocols import *  # noqa: F403 - the suite itself
