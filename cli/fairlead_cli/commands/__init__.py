"""The commands: a module for each noun, with ``register(root)``; rooms by who is asked.

    cluster     the API server: nodes, objects, status, explain, events, top, diff, pause, resync, approve, console,
                rbac, node (certificates), token
    edge        the agent on its node, or its files: status, deadletters, join, move, module_token
    messaging   the messaging service: topics ─┬─ topics_list, tail, replay, subscriptions
                                               └─ transactions
                and a store that no service has open: dump
    ingest      settings, tables and topics of a job that ingests
    here        routes, backoff, bench, doctor, bundle, completion

What they share is in the rooms beside this one: which cluster is asked (``cluster``) or which program (``clients``),
what people type (``parameters``, ``manifests``) and how answers are shown (``output``, ``text``).
"""
