"""Decides which messages a batch reads, from positions alone.

    offsets        the positions of each topic at the beginning and end of a batch; the text in Spark's checkpoint
    batch_size     how large a batch may be for a target duration, how topics share it, and the default limits
    offset_ranges  which ranges of a plan become one task
    gaps           expired messages and recreated topics: what to do, and rows of ``<table>_gaps``
    pushdown       conditions of a batch query that the service supports: topics and times

    batch_size, gaps ─▶ offsets

``io.topics`` asks the service and knows Spark; nothing here does.
"""
