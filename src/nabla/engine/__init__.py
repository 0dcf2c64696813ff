"""Doing it: steps executed by Spark or by the driver, results written to files."""
