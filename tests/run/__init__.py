"""Proves that every cell is run by one algorithm, whatever system its parts are of."""
