"""Recursive groups evaluated and maintained, on any backend."""
