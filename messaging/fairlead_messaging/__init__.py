"""Messaging: ordered, durable, transactional topics that everybody reads in the same order.

    rest ─bodies→ commands ─→ committer ─propose→ service ─┬ sequencer   where a message stands, for ever
                                 │                         ├ producers   which sequences are known
                                 │ one atomic batch        └ transactions  who may be believed
                                 ▼
                       OrderedKV (rocksdb | sqlite | memory)
                                 ▲ snapshot
    rest ←─page── reader ─visibility, retention─┤
    rest ←─Arrow─ bulk_page, columns of rows ───┘

The other end, for programs that use it:

    calls ─Call→ io.client (asyncio) | io.sync_client ─Answer→ answers, failures
      attempts: what is sent again · cursor: iteration · outgoing: publishing without waiting ·
      undertaking: a transaction with participants

Pure modules decide; ``io`` acts; ``app`` joins them.  A publish is answered only after its batch is
durable; concurrent publishes share one batch.  Positions only grow: across clock steps, restarts and
sequence overflow.
"""
