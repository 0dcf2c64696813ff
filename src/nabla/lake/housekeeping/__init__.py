"""Housekeeping of a lake: small files merged, logs trimmed, feeds shortened, by itself or when asked."""
