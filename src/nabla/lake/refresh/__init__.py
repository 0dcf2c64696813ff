"""Creating views and rules, and keeping them up to date."""
