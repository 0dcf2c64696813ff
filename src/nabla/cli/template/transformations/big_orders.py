from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.materialized_view
def big_orders() -> DataFrame:
    customers = spark.table("customers").withColumnsRenamed({"id": "customer", "name": "customer_name"})
    return spark.table("orders").where("amount > 900").join(customers, "customer")
