"""The meaning of the algebra in plain Python: the specification that everything else is tested against."""
