"""Dead letters and their repair, as values: which are meant, which may be repaired now, how they are written down.

    selection   which letters a person means: code, topic, time, id
    settled     which letters' batches are in the table, so that the job will not bring them again
    line        one letter as a line of JSON, and back: what is exported, edited and read again
    tally       the outcomes of the letters of a repair, counted

What reads and writes tables is in ``io.letters``.
"""
