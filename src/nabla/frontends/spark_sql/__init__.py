"""Views from Spark SQL text and PySpark DataFrames."""
