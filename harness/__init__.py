"""lostack: crashes real messaging systems at exact points and counts what was lost and what was
duplicated.
"""
