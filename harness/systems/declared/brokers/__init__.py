"""The brokers of a declared pipeline: started by lostack, attached, or of queues."""
