"""How a node gets its certificate: the request, the decision, and what is signed.  No I/O; see ``io.identity``.

    device's CSR ─csr.check─▶ CheckedRequest ┐
    node's names, times, serial ─────────────┴─signer─▶ SignedCertificate

The key is generated on the node and never leaves it.  The hub sets every name; a request must contain no other names.
"""
