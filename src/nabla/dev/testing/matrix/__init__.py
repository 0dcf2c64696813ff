"""The matrix: views with every aggregate, function, key, join and set operation over every type of Spark, judged by
recomputing them."""
