"""Finds, lists, exports and repairs dead letters.

    letters       which letters are open; counts by kind, and their payloads in chunks
    correction    the payload to use (from a function, an edited file, or unchanged), and judges that make rows of it:
                  with the job's own query if it has a schema file or transforms, else without Spark
    repair        letter ─▶ correction ─▶ judge ─▶ row in the table, once ─▶ mark in ``<table>_repairs``

The row is committed before the mark. After a kill in between, the next repair finds the row and only adds the mark.
"""
