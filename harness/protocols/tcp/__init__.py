"""Any bytes over TCP: turns, whatever is spoken."""
