"""Views proposed for a workload: the queries that a lake was asked, and what would answer them."""
