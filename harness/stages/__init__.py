"""The stages we ship: plain programs with their settings in the environment, exactly as a user's own would be."""
