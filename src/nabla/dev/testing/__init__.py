"""Random data, plans, programs and lakes, and the checks that they must pass."""
