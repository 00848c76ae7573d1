"""One node: who may open a session, what the node holds, and how it gets what it should hold.

    opening ─▶ session ─▶ anti_entropy     what does the node hold?
                  └─────▶ deliveries       messages, until it holds what it should

    deliveries ─▶ in_flight        what was sent, and what an answer is about
        ├───────▶ frames           what it sends
        ├───────▶ send_rate        how fast, all nodes together
        └─▶ node_objects ─▶ keys            where each key is, what is next, and when
                ├────────▶ deletion_guard  too many deletions at once wait for approval (``pause``: annotations)
                └────────▶ delivery_events what it reports

Rooms: ``opening`` (who may begin), ``keys`` (the state of each key that is not in sync).
Pure: frames, changes of the cluster and the time come in; frames and events go out.
docs/explanation/delivery.md explains the states of a key.
"""
