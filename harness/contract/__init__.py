"""The suites that every system, protocol, client and dialect keeps, whoever brings it: ``pytest
--lostack-contract PACKAGE`` runs them against an installed package.
"""
