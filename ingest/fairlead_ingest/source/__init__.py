"""Which messages a batch reads, decided from positions alone.

    offsets           one topic's place after a batch, all topics' places; the text Spark keeps in its checkpoint
    batch_shares      how much of one batch each topic may take
    batch_pace        how large a batch may be to take so many seconds, and when that counts
    offset_ranges     which ranges of a plan become one task
    data_loss_policy  what to do where messages expired unread, or a topic was deleted and made again
    limits            how much is read at once by default
    place_after       where a topic stands after a batch, by what the service planned for it
    starting_position where a pipeline begins that has no position yet
    gaps              the rows of ``<table>_gaps``: messages that were never read and never will be
    pushdown          conditions of a batch query that the service can answer: topics and times

    data_loss_policy ─▶ offsets ◀─ gaps

Nothing here asks the service or knows Spark; ``io.topics`` does.
"""
