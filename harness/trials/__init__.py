"""Somebody's own test as the load: run behind the proxy, once for each fault that a wire can do."""
