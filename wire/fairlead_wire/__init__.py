"""What both ends of the link share.

    hub ──Update, Delete──▶ edge        state: newest wins, one in flight per object
    hub ◀──Ack, Nack────── edge        an Ack means: durable on the peer's disk
    hub ◀──Upstream──────── edge        facts: each once, most important first
    hub ──Ack, Nack───────▶ edge

``resource``  the name of an object as its Kubernetes REST path
``version``   order of resourceVersions
``digest``    content digest and the bucketed sum a session opens with
``message``   the headers that travel, one struct for each verb
``codec``     bytes ⇄ (header, content), bounded before it is parsed
``window``    what is in flight, what is overdue, what an ack settles
``session``   which frame is legal when; ids; keepalive
``delivery``  the delivery policy and its phases (``backoff_curves``: how delays grow); ``delivery_model`` is the same
              as a pydantic model, for programs of the cluster
``browser``   web pages are no local programs
``validation``  what people write is checked: every mistake with its key and a reason
``event``     what programs tell of themselves on system topics
``trace``     the W3C trace context that messages carry; ``trace_sampling`` which are recorded, ``trace_settings`` and
              ``trace_model`` the table ``[traces]`` of all programs
``errors``    LocalError (we broke the contract) and RemoteError (the peer did)

The root is pure: no clock, disk, network or randomness.  ``io`` holds what programs
share at their rim: settings files, JSON logs, mutual TLS, spans.
"""
