"""Tables, their storage, and Spark: formats, object stores, catalogs, jobs without Spark."""
