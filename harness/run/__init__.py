"""The one run of a cell: its steps, its controls, its drain. What a system adds are :class:`~harness.run.parts.Parts`."""
