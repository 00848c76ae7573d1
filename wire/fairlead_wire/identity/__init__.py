"""How a node gets and keeps its certificate, as far as device, hub and command line share it.

    person ─ token create ─▶ JoinToken (hash only)          device ─ join: token, request ─▶ hub ─ issued ─▶ device
                   └─ text fl1-… ─ by hand ─▶ device        edge ── renew, in its session ──▶ hub ─ issued ─▶ edge

Values only.  A key is made on the device and never leaves it; the names in a certificate are the hub's to set.
"""
