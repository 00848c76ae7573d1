"""The Spark that a job runs on: in this process, under a master, or behind a Connect server.

session            the session of a job, of a master or (``connect``) on a Connect server
executor_probe     do tasks have what they need where they run; before the first batch
executors          none is left, more came than the query counts on, some were left by a killed driver
connect            a session on a Connect server; Spark itself is gone; codes for what Spark, tables and disks raise

executor_probe, executors ─▶ session ─▶ connect
"""
