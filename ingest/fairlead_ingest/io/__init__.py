"""Where ingest touches Spark, the messaging service, the table's files and its own health port."""
