"""Many cells: their selection, the lanes that they run in, progress, and the checks and corpora
that use them.
"""
