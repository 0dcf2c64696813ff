"""Skip, maintain or recompute: steps as data, chosen by cost."""
