"""The same with Spark SQL, no jar of Delta needed:  python with_spark.py TABLE"""

import sys

from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession

QUERY = """
    SELECT node, count(*) AS rows, round(avg(CAST(get_json_object(body, '$.temperature') AS DOUBLE)), 3) AS temperature
    FROM messages GROUP BY node ORDER BY node
"""


def by_node(spark: SparkSession, table: str) -> list[Row]:
    """Delta's log names the files of the newest version."""
    files = DeltaTable(table).file_uris()
    rows = spark.read.option("basePath", table).option("mergeSchema", True).parquet(*files)
    rows.createOrReplaceTempView("messages")
    return spark.sql(QUERY).collect()


if __name__ == "__main__":
    session = SparkSession.builder.master("local[*]").getOrCreate()
    for row in by_node(session, sys.argv[1]):
        print(*row)
