"""Proofs that a fault has happened. Each proof reads one thing from the history."""
