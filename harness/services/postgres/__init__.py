"""A PostgreSQL server as a node: started, killed with all its processes, restarted on the same data
and port.
"""
