"""What both ends of the link share.

    hub ──Update, Delete──▶ edge        state: newest wins, one in flight per object
    hub ◀──Ack, Nack────── edge        an Ack means: durable on the peer's disk
    hub ◀──Upstream──────── edge        facts: each once, most important first
    hub ──Ack, Nack───────▶ edge

``message``          the frames: one struct for each verb, and what its content holds
``link``             a session: which frame is legal when, what is in flight, frames as bounded bytes
``objects``          name, version and content digest of an object; the bucketed sum by which two stores are compared
``backoff``          pauses between attempts that never give up: doubling, capped, jittered; ``Retry-After``
``delivery_policy``  how often, and after what delays, a delivery is tried again; ``delivery_model`` is it in pydantic
``identity``         join tokens, node names, certificates, the authorities that are trusted
``validation``       checks what people write: every mistake with its key and a reason
``event``            what programs publish about themselves on system topics
``traces``           the W3C trace context that messages carry, and the table ``[traces]`` of all programs
``http``             OpenAPI documents; compressed bodies; requests of web pages to a local port
``durations``        durations as text for people
``log_limiter``      when a repeated event is logged
``distribution``     the name and version of the installed distribution
``errors``           LocalError (we broke the contract) and RemoteError (the peer did)

All but ``io`` is pure: no clock, disk, network or randomness.  ``io`` reads settings files, writes JSON logs, and has
mutual TLS and spans.
"""
