"""The meaning of a query: relations, expressions and their printers."""
