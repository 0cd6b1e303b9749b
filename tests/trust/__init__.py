"""Proves, on a real broker and Spark, that the instrument cannot be fooled: disarmed faults, wrong
victims, SIGKILL.
"""
