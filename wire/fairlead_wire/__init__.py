"""What both ends of the link share.

    hub ──Update, Delete──▶ edge        state: newest wins, one in flight per object
    hub ◀──Ack, Nack────── edge        an Ack means: durable on the peer's disk
    hub ◀──Upstream──────── edge        facts: each once, most important first
    hub ──Ack, Nack───────▶ edge

``message``     the frames: one struct for each verb, and what its content holds
``link``        a session: which frame is legal when, what is in flight, frames as bounded bytes
``objects``     name, version and content digest of an object; the bucketed sum by which two stores are compared
``backoff``     the delivery policy: how often, and after what waits, something is sent again
``identity``    join tokens, node names, certificates, the authorities that are trusted
``validation``  what people write is checked: every mistake with its key and a reason
``events``      what programs publish of themselves on system topics
``traces``      the W3C trace context that messages carry, and the table ``[traces]`` of all programs
``http``        OpenAPI documents; web pages that ask a local port
``durations``   how long, for people
``errors``      LocalError (we broke the contract) and RemoteError (the peer did)

All but ``io`` is pure: no clock, disk, network or randomness.  ``io`` holds what programs share at
their rim: settings files, JSON logs, mutual TLS, spans.
"""
