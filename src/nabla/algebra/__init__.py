"""What a query means: relations, expressions and their printers."""
