"""What only one system is held to, a folder each."""
