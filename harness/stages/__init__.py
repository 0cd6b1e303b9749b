"""lostack's own stages: plain programs with their settings in the environment, exactly as a user's
own programs.
"""
