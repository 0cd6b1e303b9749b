"""Proves that results in a real PostgreSQL are counted rightly, a server that lies among them."""
