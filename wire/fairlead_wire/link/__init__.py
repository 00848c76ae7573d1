"""A session between hub and edge, as both ends keep it.

``session``    which frame is legal when, message ids, keepalive
``window``     what is in flight, what is overdue, what an acknowledgement settles
``codec``      bytes ⇄ (header, content), bounded before anything is parsed
``peer_json``  JSON that a peer wrote, read or refused with one error
"""
