"""The Spark that a job runs on: in this process, on a cluster, or behind a Connect server.

session            the session of a job, on a master or (``connect``) on a Connect server
executor_probe     checks before the first batch that executors have what tasks need
executors          notices lost and additional executors, and removes those of a killed driver
connect            sessions on a Connect server, errors that mean Spark is gone, codes for other errors

executor_probe, executors ─▶ session ─▶ connect
"""
