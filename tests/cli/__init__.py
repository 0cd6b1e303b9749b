"""Proves what the commands and the pytest plugin print, and with which code they end."""
