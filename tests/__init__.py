"""What must hold of lostack. Each folder says in one line what it proves; which tier a test belongs
to: ``tests/tiers.py``.
"""
