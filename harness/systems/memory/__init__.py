"""The in-memory system: it tests lostack itself, and says nothing about a real system."""
