"""Datalog: views as rules, with negation, aggregates and recursion."""
