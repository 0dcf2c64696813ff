"""Benchmarks: what a refresh costs against recomputing."""
