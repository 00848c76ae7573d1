"""The hub: keeps every edge node's copy of its objects up to date, and takes what the nodes say.

    reflector ─observe→ catalog ─place→ placement ─offer→ NodeQueue ─deliver→ NodeSession ⇄ wire
                                                                          │ ack
                                            API ◀─record─ ledger ◀─ records ┘
    edge ─upstream→ upstream (who may name which topic) ─accept→ messaging

Down: ``api_json`` reads the API server's bytes, whatever they are; ``content`` makes one canonical copy of an object
for all nodes; ``catalog`` holds what the cluster has, ``rules`` (``rule_reader`` takes them in) and ``placement``
decide who wants it, ``removals`` what may not be deleted yet; ``compare`` finds at the opening where a store differs;
``node_queue``, ``flights``, ``letters`` and ``patience`` make up a ``node_session``, which asks its ``view`` and tells
``outcomes``.  Records: ``bookkeeper``, ``records``, ``objectsync``, ``reconcile``, ``ledger`` (may lag, never lead);
``refusals`` are tried again; ``accounts``, ``edge_node``, ``verdicts``, ``route_verdicts``, ``happenings`` tell users,
``announcements`` whoever reads the system topic, ``explain`` says why.  ``grants`` says who may name which topic,
``lease`` who is the hub, under which fencing number, ``tenure`` whether this process still is; ``watch_pace`` when a
watch is opened again, ``freshness`` what is not followed.  ``hub`` joins this for all nodes.

The root decides and does no I/O; ``io`` acts; ``app`` joins the two.
"""
