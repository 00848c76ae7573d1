"""Which messages a batch reads, decided from positions alone.

    offsets        where each topic begins and how far it was read; the text Spark keeps in its checkpoint
    batch_size     how large a batch may be to take so many seconds, how topics share it, and the default limits
    offset_ranges  which ranges of a plan become one task
    gaps           messages that expired unread, topics deleted and recreated: what to do, and rows of ``<table>_gaps``
    pushdown       conditions of a batch query that the service can answer: topics and times

    batch_size, gaps ─▶ offsets

Nothing here asks the service or knows Spark; ``io.topics`` does.
"""
