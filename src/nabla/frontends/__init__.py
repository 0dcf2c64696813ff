"""How a view is said: Spark SQL and DataFrames, Datalog, nested relations, pipelines projects."""
