"""The lake as a database: tables, views, rules and constraints in a folder, and everything a user does with them."""
