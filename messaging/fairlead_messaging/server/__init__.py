"""The service: one writer, readers of snapshots, push subscriptions.

io.rest ─requests→ commands ─→ io.committer ─propose→ service ─┬ log           where a message stands, for ever
                                    │                          ├ producers     which sequences are stored
                                    │ one atomic batch         ├ transactions  which messages are committed
                                    ▼                          └ subscriptions, readers, retention
                          OrderedKV (io.stores)
                                    ▲ snapshot
io.rest ←─page── log.reader ─visibility, retention─┤
io.rest ←─Arrow─ log.bulk_page, columns of rows ───┘
"""
