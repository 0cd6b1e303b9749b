"""Proves that an audit finds exactly what was lost, duplicated and phantom, and says where it
cannot see.
"""
