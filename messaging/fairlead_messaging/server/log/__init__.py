"""The log of a topic: rows of messages in the order in which they are read, forever.

    topic_log ─append→ the next position, whatever the clock does
                 ├─→ rows, keys       how a message is written, and under which key
                 └─→ running_totals   how much there is up to here, without a scan
    reader ──page── a snapshot: from an exclusive id on, alive, each row in a state (``rows.RowState``)
    bulk ──plan── offset ranges up to the last stable offset ──→ bulk_page, an Arrow stream
    topic, topics   which topics there are, and with which properties

A position is (milliseconds, sequence), ten bytes in byte order; a message id is the position and, where the payload was
stored before it was published, the payload's position.  The log knows no transactions: it asks for a row's state.
"""
