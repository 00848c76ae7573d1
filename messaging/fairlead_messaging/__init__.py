"""Messaging: ordered, durable, transactional topics that everybody reads in the same order.

    client ──▶ api ◀── server        programs install the client; the service never imports it
      │                  │
      requests, retry,   one writer, readers of snapshots, push subscriptions
      cursor, publish    over an ordered key-value store (rocksdb | sqlite | memory)
      buffer, transaction
      context

``app`` is the service as a program.  In each room modules decide and ``io`` acts.  A publish is answered only after its
batch is durable; concurrent publishes share one batch.  Positions only grow: across clock steps, restarts and
sequence overflow.
"""
