"""The page in a real headless Chromium (marker ``browser``)."""
