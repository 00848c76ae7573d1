"""The same with DuckDB, in SQL:  python with_duckdb.py TABLE"""

import sys

import duckdb
from deltalake import DeltaTable

QUERY = """
    SELECT node, count(*) AS rows, round(avg(CAST(json_extract(body, '$.temperature') AS DOUBLE)), 3) AS temperature
    FROM messages GROUP BY node ORDER BY node
"""


def by_node(table: str) -> list[tuple[str, int, float]]:
    """DuckDB's own Delta extension is not needed: delta-rs hands it the files that belong to the table."""
    connection = duckdb.connect()
    connection.register("messages", DeltaTable(table).to_pyarrow_dataset())
    return connection.execute(QUERY).fetchall()


if __name__ == "__main__":
    for row in by_node(sys.argv[1]):
        print(*row)
