"""The algebra in the signs of the papers, for people."""
