"""A session between hub and edge: the parts that both ends use.

``session``    which frame is legal when, message ids, keepalive
``window``     what is in flight, what is overdue, what an acknowledgement settles
``codec``      bytes ⇄ (header, content), bounded before anything is parsed
``peer_json``  decodes JSON from a peer, with a single error type
"""
