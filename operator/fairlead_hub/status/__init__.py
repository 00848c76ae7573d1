"""What the hub writes to the API about nodes, objects and rules.  It may lag behind the actual state but never leads.

    delivery events ─▶ sync_controller ─▶ object_sync_status ─▶ ObjectSync, ClusterObjectSync ┐
    sessions, reports of edges ─────────▶ node_status ────────▶ EdgeNode                      ├▶ status_cache
    rules, routes, what they select ────▶ rule_statuses ──────▶ SyncRule, EdgeRoutes          ┘

``status_cache`` holds the current and the wanted documents: the newest wins, with one write per document at a time.
``object_sync``, ``edge_node``, ``sync_rule_status`` and ``edge_routes_status`` build the bodies, and ``object_sync``
decides what a record should say.  ``Notice`` values become Kubernetes Events; the hub passes them on.
No I/O: nothing here writes, and the time is an argument.
"""
