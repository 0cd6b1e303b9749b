"""What the wire saw of a declared cell, and the routes that it has for the cell's services."""
