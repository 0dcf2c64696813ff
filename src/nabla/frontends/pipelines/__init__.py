"""Apache Spark Declarative Pipelines projects."""
