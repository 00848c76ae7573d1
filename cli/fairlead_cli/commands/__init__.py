"""The commands: a module for each noun, with ``register(root)``, and one for each long command of ``topics``.

    routes, backoff, status, explain, bench, ingest
    pause (and resume), resync, approve, diff, bundle, console, doctor
    deadletters, edge_status, module_token (of ``edge``), dump (of ``messaging``)
    topics ─┬─ tail          the newest messages, and those that come
            ├─ replay        one topic into another, once
            ├─ subscriptions
            └─ transactions

What they share is in the folder above: which cluster is asked (the room ``cluster``) or which service (``hub_account``,
``messaging_account``), how answers are shown (the room ``output``), and how people write and read things (``batch``,
``place_parameter``, ``durations``, ``source_locations``, ``progress``).
"""
