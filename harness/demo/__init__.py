"""The programs that ``lostack demo`` copies into a folder of the user's, and checks there."""
