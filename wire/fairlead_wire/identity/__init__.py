"""How a node gets and keeps its certificate: the parts that device, hub and command line share.

    person ─ token create ─▶ JoinToken (hash only)          device ─ join: token, request ─▶ hub ─ issued ─▶ device
                   └─ text fl1-… ─ by hand ─▶ device        edge ── renew, in its session ──▶ hub ─ issued ─▶ edge

Values only.  The private key is generated on the device and never leaves it; the hub sets the names in a certificate.
"""
