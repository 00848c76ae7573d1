"""The hub: keeps every edge node's copy of its objects up to date and receives the messages of nodes.

    reflector ─observe→ object cache ─place→ placement ─offer→ WorkQueue ─send→ NodeSession ⇄ wire
                                                                          │ ack
                                            API ◀─write─ status cache ◀── status ┘
    edge ─upstream→ publish_batch (which topics a node may publish to) ─accept→ messaging

Packages, from the outermost in.  Each may import those below it, never one above (import contracts enforce this):

    io             acts: API server, WebSocket server, Lease, messaging, HTTP, kopf
    console        the pages for people, and the values they are rendered from
    hub            the core for all nodes: changes come in by four parts, one ``Ready`` comes out; ``view`` reads it
    core           the parts: consequences of a change of the cluster, of our documents, of a session, of certificates
    status         what the hub writes: ObjectSync, EdgeNode, the status of rules; ``sync_controller`` keeps it correct
    events         Kubernetes Events and CloudEvents
    publish_batch  messages from edges, and which topics a node may publish to
    delivery       one node: session, work queue, in flight, backoff, anti-entropy, deletion guard
    leadership     which process is the hub
    cluster        the state of the cluster: objects, rules, placement, desired state

Modules outside ``io`` make decisions and do no I/O: they take the time as an argument and return what to do next as a
value, which one loop in ``io`` carries out.  ``app`` connects the two.
"""
