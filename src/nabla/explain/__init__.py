"""A view's plan and its maintenance, for people: as text, as formulas, as SQL, as a drawing."""
