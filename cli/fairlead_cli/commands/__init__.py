"""The commands: one module each, named like the command, with ``register(root)``; grouped by the program they ask.

    cluster     the API server: nodes, objects, status, explain, events, logs, top, diff, pause, resync, approve,
                console, rbac, rollout, node (certificates), token
    edge        the agent on its node, or its files: status, deadletters, receipt, join, move, leave, module_token
    messaging   the messaging service: topics (with tail, replay, subscriptions, transactions), and the store of a
                stopped one: dump, backup
    ingest      the settings, tables and topics of an ingest job: jobs, tables, latest, letters, repair, check
    here        routes (routes_list), backoff, bench, send, doctor, bundle, completion

They share the sibling packages: ``cluster`` and ``clients`` ask the programs, ``parameters`` and ``manifests`` parse
input, ``output`` and ``text`` print answers.
"""
