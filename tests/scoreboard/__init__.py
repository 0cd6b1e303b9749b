"""Proves that a scoreboard runs each row once, and shows nothing as kept that was not."""
