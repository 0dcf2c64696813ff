"""Benchmarks: the cost of a refresh compared with the cost of recomputing."""
