"""An Iceberg table by its name, three times:  python from_catalog.py CATALOG NAMESPACE.TABLE

CATALOG is what the job's [catalog] has as uri: sqlite:////path/catalog.db, postgresql+psycopg://…, or https:// of a
REST catalog.  Secrets are in the environment: PGPASSWORD, PYICEBERG_CATALOG__FAIRLEAD__CREDENTIAL, …__TOKEN.
"""

import sys

import duckdb
import polars as pl
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import Row, SparkSession

COLUMNS = ("node", "body")
QUERY = """
    SELECT node, count(*) AS rows, round(avg(CAST(json_extract(body, '$.temperature') AS DOUBLE)), 3) AS temperature
    FROM messages GROUP BY node ORDER BY node
"""


def find(catalog: str, name: str) -> Table:
    """The table as it is now; a later look may find a newer version."""
    kind = "rest" if catalog.startswith("http") else "sql"
    return load_catalog("fairlead", type=kind, uri=catalog).load_table(name)


def with_polars(table: Table) -> pl.DataFrame:
    """Lazily: only the columns and files that are needed are read."""
    temperature = pl.col("body").str.json_path_match("$.temperature").cast(pl.Float64)
    return (
        pl.scan_iceberg(table)
        .with_columns(temperature.alias("temperature"))
        .group_by("node")
        .agg(pl.len().alias("rows"), pl.col("temperature").mean().round(3))
        .sort("node")
        .collect()
    )


def with_duckdb(table: Table) -> list[tuple[str, int, float]]:
    """SQL, over batches as they are read; DuckDB's own Iceberg extension is not needed."""
    connection = duckdb.connect()
    connection.register("messages", table.scan(selected_fields=COLUMNS).to_arrow_batch_reader())
    return connection.execute(QUERY).fetchall()


def with_spark(spark: SparkSession, table: Table) -> list[Row]:
    """By the files of this version, without a jar; it cannot read beside them which rows another engine has deleted."""
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise SystemExit("another engine has marked rows as deleted: read with polars or DuckDB, or compact with that")
    files = [task.file.file_path for task in tasks]
    spark.read.option("mergeSchema", True).parquet(*files).createOrReplaceTempView("messages")
    query = QUERY.replace("json_extract", "get_json_object")
    return spark.sql(query).collect()


if __name__ == "__main__":
    found = find(*sys.argv[1:3])
    print(with_polars(found))
    for row in with_duckdb(found):
        print(*row)
