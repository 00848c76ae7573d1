"""What the cluster says: objects, rules, nodes, and which node should hold what.

    bytes of the API server ─api_json, content─▶ object_cache ┐
    SyncRules, EdgeRoutes ──sync_rule, selector─▶ rule_set ───┼─placement─▶ desired_state, asked by each session
    Nodes ──────────────────────────────────────▶ node_index ─┘

What a Pod mounts comes with it (``references``).  Nothing is taken away while it is uncertain: ``listed`` knows what
has been listed, ``watch_health`` what is not followed, ``deletion_blocked`` which objects have to stay for it.
``object_pause`` and ``paused_kinds``: objects that people paused.  ``rule_matches`` and ``spec_check``: what the status
of a rule is made of.  ``watch_backoff`` decides for ``io`` when a watch is opened again.
"""
