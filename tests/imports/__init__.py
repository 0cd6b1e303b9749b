"""Proves that imports point one way: the contracts hold, and each would break where one points the
other way.
"""
