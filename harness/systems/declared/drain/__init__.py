"""When everything in a declared cell is at rest."""
