"""What follows from each change in the hub, by the noun that changes (``hub.Hub`` joins the parts).

    cluster       objects, kinds, edge Nodes, rules     ─┐
    documents     our own documents, outcomes of writes ─┼─▶ open_sessions   who has something to do
    certificates  who gets one, whom nodes believe      ─┤   node_terms      what each node may
    sessions      nodes that are connected              ─┘   reports         status, Events, CloudEvents, totals

``rules`` reads SyncRules and EdgeRoutes for ``cluster``.  Nothing here does I/O or asks for the time.
"""
