"""Random data, plans, programs and lakes, and what holds for them."""
