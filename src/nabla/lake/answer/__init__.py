"""Queries answered from views: which views may, what the data proves, and the answer."""
