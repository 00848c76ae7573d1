"""The service: a single writer, readers of snapshots, and push subscriptions.

    io.rest ─requests→ commands ─→ io.committer ─propose→ service ─┬ log           the position of each message
                                        │                          ├ producers     which sequences are stored
                                        │ one atomic batch         ├ transactions  which messages are committed
                                        ▼                          └ subscriptions, readers, retention
                              OrderedKV (store, io.stores)
                                        ▲ snapshot
    io.rest ←─page── log.reader ─row states of transactions─┤
    io.rest ←─Arrow─ log.bulk_page, columns of rows ────────┘

Imports go downwards only: io > service > retention, readers > subscriptions > transactions > publishing > commands >
producers > log > store.  Only ``io`` reads a clock, a disk or a socket.
"""
