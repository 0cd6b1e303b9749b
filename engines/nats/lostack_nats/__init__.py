"""NATS JetStream as a system of lostack: a server in a wheel, its protocol, files and points."""
