"""The Spark that a job runs on: in this process, under a master, or behind a Connect server.

session            the session of a job, of a master or (``connect``) on a Connect server
executor_probe     do tasks have what they need where they run; before the first batch
executor_watcher   more executors came than the query counts on
executor_presence  no executor is left
former_executors   executors in Kubernetes that a killed driver has left
spark_away         Spark itself is gone, and only waiting helps
spark_errors       codes for what Spark, tables and disks raise

executor_probe, executor_watcher, executor_presence ─▶ session ─▶ connect ─▶ spark_away ◀─ spark_errors
"""
