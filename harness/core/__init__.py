"""The pure core: what is counted, and what it means. Imports nothing of the rest."""
