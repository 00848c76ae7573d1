"""Who may do what: names from certificates and tokens, and what the table grants them.

certificate, token ─subject→ Subject ─AccessTable→ Grants ─may(verb, topic)→ yes or no
Caller   a subject with its grants: what a command on a transaction carries, for a transaction has an owner
topic_glob   `*` stands for any characters of one part of namespace/name, never for the `/`

No clock, no sockets: ``io.identity`` asks the API server whose a token is, ``io.rest.authorization`` asks this room.
"""
