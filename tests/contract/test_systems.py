"""What the runner relies on, of each system that there is."""

from harness.contract.suite_systems import *  # noqa: F403 - the suite itself
