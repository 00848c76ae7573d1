"""Dead letters in their tables: found, listed, exported, repaired.

    letters       which are open, and their payloads in chunks
    correction    what a person wants of a payload: a function, an edited file, or nothing
    plain_judge   chunks of letters into rows, where no schema file and no transform needs Spark
    spark_judge   the same through Spark, by the job's own query
    repair        letter ─▶ correction ─▶ judge ─▶ row in the table, once ─▶ mark in ``<table>_repairs``
    counts        how many are open, from the tables' logs

The row is the truth and the mark a note of it: whatever is killed in between, the next repair finds the row and only
adds the mark.
"""
