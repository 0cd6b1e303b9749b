"""Proves that a soak names each loss and each duplicate with its fault, in waves of cells and in a
stream.
"""
