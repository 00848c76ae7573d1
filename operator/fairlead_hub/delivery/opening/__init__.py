"""Decides who may open a session with the hub, before the node's objects are compared.

handshake_limiter   how many handshakes run at once
admission           protocol, name in the certificate, and edge Node
identities          which Node object a certificate belongs to, and what was revoked
"""
