"""The hub: keeps every edge node's copy of its objects up to date, and takes what the nodes say.

    reflector ─observe→ catalog ─place→ placement ─offer→ NodeQueue ─deliver→ NodeSession ⇄ wire
                                                                          │ ack
                                            API ◀─record─ ledger ◀─ records ┘
    edge ─upstream→ upstream (who may name which topic) ─accept→ messaging

Down: ``content`` makes one canonical copy of an object for all nodes; ``catalog`` holds what the cluster has, ``rules``
and ``placement`` decide who wants it (and what may not be deleted yet); ``compare`` finds at the opening where a store
differs; ``node_queue`` and ``node_session`` bring it there, with ``outcomes``.  Records: ``objectsync``, ``records``,
``reconcile``, ``ledger`` (may lag, never lead); ``edge_node``, ``verdicts``, ``happenings`` tell users, ``explain``
says why.  ``lease`` says who is the hub, under which fencing number.  ``hub`` joins these decisions for all nodes.

The root decides and does no I/O; ``io`` acts; ``app`` joins the two.
"""
