"""How a change moves through a query: a law an operator."""
