"""What the cluster says: objects, rules, nodes, and which node should hold what.

    bytes of the API server ─api_json, content─▶ object_cache ┐
    SyncRules, EdgeRoutes ──sync_rule, selector─▶ rule_set ───┼─placement─▶ desired_state, asked by each session
    Nodes ──────────────────────────────────────▶ selector ───┘

What a Pod mounts comes with it (``references``).  Nothing is taken away while it is uncertain: ``listed`` knows what
has been listed, ``watch_health`` what is not followed and when ``io`` opens a watch again, ``deletion_blocked`` which
objects have to stay for it.  ``paused_objects``: objects that people paused.  ``spec_check``: what a rule's status is
made of.
"""
