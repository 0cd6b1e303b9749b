"""Proves what is declared of Storm's cells, what a topology is told, and whose word a worker's end
is.
"""
