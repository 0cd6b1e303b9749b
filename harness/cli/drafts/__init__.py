"""A first declaration for programs that are there already: what they show of themselves, and what is written of it."""
