"""Who may open a session with the hub, before anything is known of what the node holds.

handshake_limiter   how many begin at once, and who waits
admission           who speaks our protocol, is who its certificate says, and is an edge Node
identities          which life of a Node a certificate belongs to, and what was revoked
"""
