"""Systems under test, one folder or file each."""
