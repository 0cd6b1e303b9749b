"""Stage programs at full speed: a producer and a consumer of one partition. Records are identified
by their position only.
"""
