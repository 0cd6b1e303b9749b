"""A soak: fault after fault while records flow, in waves of cells, or in one stream at
full speed.
"""
