"""The run of a cell: its steps, controls and drain. A system supplies
:class:`~harness.run.parts.Parts`.
"""
