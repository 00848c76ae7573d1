"""One node: who may open a session, what the node holds, and how it gets what it should hold.

    admission, identities, handshake_limiter ─▶ session ─▶ anti_entropy     what does the node hold?
                                                   └─────▶ deliveries       messages, until it holds what it should

    deliveries ─▶ in_flight        what was sent, and what an answer is about
        ├───────▶ frames           what it sends
        └─▶ node_objects ─▶ unsynced_keys ─▶ key_state        where each key is (``TRANSITIONS``), one record a key
                │                └─────────▶ work_queue, timers   what is next, and when
                ├────────▶ backoff         after how long a failed key is tried again
                ├────────▶ deletion_guard  too many deletions at once wait for approval (``pause``: annotations)
                └────────▶ delivery_events what it reports

Pure: frames, changes of the cluster and the time come in; frames and events go out.
docs/explanation/delivery.md explains the states of a key.
"""
