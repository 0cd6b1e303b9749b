"""Proves ActiveMQ Classic: its client, its journal and its plan without a broker; and its cells."""
