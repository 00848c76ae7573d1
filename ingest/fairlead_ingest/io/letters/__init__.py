"""Dead letters in their tables: found, listed, exported, repaired.

    letters       which are open, counted by kind or listed, and their payloads in chunks
    correction    the payload to use: by a function, an edited file, or unchanged; judges that make rows of it, without
                  Spark where no schema file and no transform needs it, else by the job's own query
    repair        letter ─▶ correction ─▶ judge ─▶ row in the table, once ─▶ mark in ``<table>_repairs``

The row is the truth and the mark a note of it: whatever is killed in between, the next repair finds the row and only
adds the mark.
"""
