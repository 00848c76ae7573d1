"""What both ends of the link share.

    hub ──Update, Delete──▶ edge        state: newest wins, one in flight per object
    hub ◀──Ack, Nack────── edge        an Ack means: durable on the peer's disk
    hub ◀──Upstream──────── edge        messages: each once, most urgent first
    hub ──Ack, Nack───────▶ edge

``message``          the frames: one struct per verb, and the structs their content is decoded into
``link``             a session: which frame is legal when, what is in flight, frames as bounded bytes
``objects``          name, version and content digest of an object; the bucketed sums by which two stores are compared
``backoff``          delays between attempts that never give up: doubling, capped, jittered; ``Retry-After``
``delivery_policy``  how often and after what delays a delivery is retried; ``delivery_model`` is its pydantic form
``identity``         join tokens, node names, certificates, the authorities that are trusted
``validation``       checks of what people write: each mistake with its key and a reason
``event``            the events that programs publish about themselves on system topics
``traces``           the W3C trace context that messages carry, and the ``[traces]`` settings table
``http``             OpenAPI documents; compressed bodies; protection of local ports from web pages
``durations``        durations as text for people
``log_limiter``      rate limit for repeated log lines
``distribution``     the name and version of the installed distribution
``errors``           LocalError (we broke the contract) and RemoteError (the peer did)

Everything except ``io`` is pure: no clock, disk, network or randomness.  ``io`` reads settings files, writes JSON logs
and holds mutual TLS and spans.
"""
