"""Proves that the instrument notices when it is broken: at four named seams, one function for each
thing it could get wrong.
"""
