"""Integrity constraints: queries that must stay empty."""
