"""What the hub writes into the API about nodes, objects and rules; behind the truth perhaps, never ahead of it.

    delivery events ─▶ sync_controller ─▶ object_sync_status ─▶ ObjectSync, ClusterObjectSync ┐
    sessions, reports of edges ─────────▶ node_status ────────▶ EdgeNode                      ├▶ status_cache
    rules, routes, what they select ────▶ rule_statuses ──────▶ SyncRule, EdgeRoutes          ┘

``status_cache`` keeps what stands in the API and what should: the newest wins, one write of a document at a time.
``object_sync``, ``edge_node``, ``rule_status`` and ``edge_routes_status`` make the bodies, and ``object_sync``
decides what a record should say.  What is worth a Kubernetes Event is returned as a ``notice``; the hub passes it on.
Pure: nothing here writes, and the time is an argument.
"""
