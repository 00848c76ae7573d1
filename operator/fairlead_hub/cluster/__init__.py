"""The state of the cluster: objects, rules, nodes, and which node should hold what.

    bytes of the API server ─api_json, content─▶ object_cache ┐
    SyncRules, EdgeRoutes ──sync_rule, selector─▶ rule_set ───┼─placement─▶ desired_state, asked by each session
    Nodes ──────────────────────────────────────▶ selector ───┘

Objects that a Pod mounts are placed with it (``references``).  Nothing is deleted from a node while that is uncertain:
``listed`` knows what has been listed, ``watch_health`` which watches are broken and when ``io`` reopens one, and
``deletion_blocked`` which objects have to stay meanwhile.  ``paused_objects``: objects that users paused.
"""
