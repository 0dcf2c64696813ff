"""Queries and look-ups that the driver answers itself, without a Spark job."""
