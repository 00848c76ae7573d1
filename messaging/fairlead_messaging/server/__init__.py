"""The service: one writer, readers of snapshots, push subscriptions.

    io.rest ─requests→ commands ─→ io.committer ─propose→ service ─┬ log           where a message stands, forever
                                        │                          ├ producers     which sequences are stored
                                        │ one atomic batch         ├ transactions  which messages are committed
                                        ▼                          └ subscriptions, readers, retention
                              OrderedKV (store, io.stores)
                                        ▲ snapshot
    io.rest ←─page── log.reader ─row states of transactions─┤
    io.rest ←─Arrow─ log.bulk_page, columns of rows ────────┘

Rooms import downwards only: io > service > retention, readers > subscriptions > transactions > publishing > commands
> producers > log > store.  Nothing here but ``io`` reads a clock, a disk or a socket.
"""
