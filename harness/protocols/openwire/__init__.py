"""OpenWire, versions 10 to 12, without its tight encoding and its cache of values."""
