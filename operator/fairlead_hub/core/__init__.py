"""The consequences of each change in the hub, by what changed (``hub.Hub`` connects the parts).

    cluster       objects, kinds, edge Nodes, rules      ─┐
    documents     our own documents, outcomes of writes  ─┼─▶ open_sessions   sessions that have work to do
    certificates  issued certificates, announced CAs     ─┤   node_terms      what each node is allowed to do
    sessions      connected nodes                        ─┘   reports         status, Events, CloudEvents, totals

``rules`` reads SyncRules and EdgeRoutes for ``cluster``.  Nothing here does I/O or reads a clock.
"""
