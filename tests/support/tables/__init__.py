"""Tables, where they are kept, and Spark: formats, object stores, catalogs, jobs without Spark."""
