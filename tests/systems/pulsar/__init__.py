"""Proves what is read of Pulsar's ledgers, cursors and histories, and on a real broker that cells
end and lies are found out.
"""
