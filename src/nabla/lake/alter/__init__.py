"""Schemas and definitions that change: tables are altered, views get another query, and those who read them follow."""
