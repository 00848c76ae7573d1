"""Everything about one node: who may open a session, what the node holds, and delivery of what it should hold.

    admission, identities ─▶ session ─▶ anti_entropy     what does the node hold?
                                └─────▶ node_keys        where each object is on its way, and the messages about it

    node_keys ─▶ unsynced_keys ─▶ key_state    one record for each key that is not in sync, and the moves it may make
        │              └────────▶ work_queue   which key is next, and when it is retried
        ├──────▶ backoff         after how long a key that failed is tried again
        ├──────▶ in_flight       what is sent, and what an answer is about
        ├──────▶ send_rate       the overall rate, for all nodes together
        ├──────▶ deletion_guard  too many deletions at once wait for approval (``pause``: annotations)
        └──────▶ delivery_events what it reports

No I/O: frames, changes of the cluster and the time come in; frames and events go out.
docs/explanation/delivery.md explains the states of a key.
"""
