"""Plan to plan: rewrites that make a query cheaper and keep its meaning."""
