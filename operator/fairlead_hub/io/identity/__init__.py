"""Certificates for nodes: signers, JoinTokens as they change, and the conversation of a device that has none yet.

    device ─joining─┬─ join_service ────┐
                    └─ late_service ────┼─▶ issuing ─▶ file_signer | cert_manager_signer
    session ───────── renewal_service ──┘

``join_token_watch``  JoinTokens of the API server, and what the hub says of itself in each
``authorities``       whom the hub believes, and who signs; ``announcer`` gives nodes what changed of it
``identity_service``  joins all of it
"""
