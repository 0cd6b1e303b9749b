"""What faults must have done: each proof reads one thing from the history."""
