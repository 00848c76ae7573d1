"""The halves of the hub's core: who says what, and what follows.  ``hub`` joins them and is the only way in.

    object_changes   objects, kinds, lists          ┐
    rule_changes     SyncRules and EdgeRoutes       │
    node_changes     Nodes                          ├─▶ open_sessions   offers, comparisons, who has frames
    edge_node_changes  EdgeNodes, their annotations │   node_terms      what a node may: identity, pause, guard, topics
    document_changes ObjectSyncs, answers to writes │   reports         status, Kubernetes Events, CloudEvents
    session_lifecycle  open, replaced, refused, gone┘

    passes           what time alone asks

Those on the left take typed changes with the time; those on the right are what several of them need.
"""
