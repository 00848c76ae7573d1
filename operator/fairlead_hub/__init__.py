"""The hub: keeps every edge node's copy of its objects up to date, and takes what the nodes say.

    reflector ─observe→ object cache ─place→ placement ─offer→ WorkQueue ─send→ NodeSession ⇄ wire
                                                                          │ ack
                                            API ◀─write─ status cache ◀── status ┘
    edge ─upstream→ upstream (who may name which topic) ─accept→ messaging

Rooms, from the outside in; each may import those below it, never one above (import contracts enforce it):

    io          acts: API server, WebSocket server, Lease, messaging, HTTP, kopf
    console     the pages on which people see it, and what they are made of
    hub         the core for all nodes: changes in by four parts, one ``Ready`` out; ``view`` is what is read of it
    core        the parts: what follows from a change of the cluster, of our documents, of a session, of certificates
    status      what is written: ObjectSync, EdgeNode, the status of rules; ``sync_controller`` keeps it true
    events      Kubernetes Events and CloudEvents
    upstream    what edges publish, and which topics a node may name
    delivery    one node: session, work queue, in flight, backoff, anti-entropy, deletion guard
    leadership  which process is the hub
    cluster     what the cluster says: objects, rules, placement, desired state

The root decides and does no I/O: time is an argument, and what to do next is a value, which one loop in ``io`` carries
out.  ``app`` joins the two.
"""
