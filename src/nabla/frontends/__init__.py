"""The languages of views: Spark SQL and DataFrames, Datalog, nested relations, pipelines projects."""
