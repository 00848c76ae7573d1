"""How a node gets its certificate: what is asked for, by whom, and what is signed.  Pure; ``io.identity`` acts on it.

    device's CSR ─csr.check─▶ CheckedRequest ┐
    node's names, times, serial ─────────────┴─signer─▶ SignedCertificate

The key is made on the node and never leaves it.  The hub sets every name; a request may leave them out or ask for just
these.
"""
