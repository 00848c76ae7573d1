"""The same with DuckDB, in SQL:  python with_duckdb.py TABLE"""

import sys
from pathlib import Path

import duckdb
from deltalake import DeltaTable

QUERY = """
    SELECT node, count(*) AS rows, round(avg(CAST(json_extract(body, '$.temperature') AS DOUBLE)), 3) AS temperature
    FROM messages GROUP BY node ORDER BY node
"""


def by_node(table: str) -> list[tuple[str, int, float]]:
    """DuckDB's own Delta extension is not needed: delta-rs hands it the files that belong to the table."""
    connection = duckdb.connect()
    if Path(table, "_delta_log").is_dir():
        connection.register("messages", DeltaTable(table).to_pyarrow_dataset())
    else:
        files = connection.read_parquet(f"{table}/**/*.parquet", hive_partitioning=True, union_by_name=True)
        files.create_view("messages")
    return connection.execute(QUERY).fetchall()


if __name__ == "__main__":
    for row in by_node(sys.argv[1]):
        print(*row)
