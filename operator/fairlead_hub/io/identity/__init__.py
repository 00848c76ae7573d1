"""Certificates for nodes: signers, JoinTokens, and the conversation with a device that has no certificate yet.

    device ─joining─┬─ join_service ────┐
                    └─ late_service ────┼─▶ issuing ─▶ file_signer | cert_manager_signer
    session ───────── renewal_service ──┘

``join_token_watch``  JoinTokens of the API server, and what the hub writes into each
``authorities``       whom the hub trusts, and who signs; ``announcer`` tells nodes about changes
``identity_service``  connects all of these
"""
