"""Power loss by what the kernel was told: what of a program's files had to survive, by its own
flushes.
"""
