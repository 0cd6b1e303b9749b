"""Servers that run beside the system under test: PostgreSQL and Toxiproxy."""
