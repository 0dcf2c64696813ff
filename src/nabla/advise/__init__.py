"""Views chosen for queries: candidates made from a workload, and the choice among them under a limit of space."""
