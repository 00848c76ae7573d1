"""Everything about one node: who may open a session, what the node holds, and delivery of what it should hold.

    opening ─▶ session ─▶ anti_entropy     what does the node hold?
                  └─────▶ node_keys        where each object is on its way, and the messages about it

    node_keys ─▶ keys            one record for each key that is not in sync: state, queue, timers, backoff
        ├──────▶ in_flight       what was sent, and what an answer is about
        ├──────▶ frames          what it sends
        ├──────▶ send_rate       how fast, all nodes together
        ├──────▶ deletion_guard  too many deletions at once wait for approval (``pause``: annotations)
        └──────▶ delivery_events what it reports

No I/O: frames, changes of the cluster and the time come in; frames and events go out.
docs/explanation/delivery.md explains the states of a key.
"""
