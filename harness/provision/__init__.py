"""Fetch what a fresh machine lacks (Java, jars, servers, images) once into the cache, and check it
on every start.
"""
