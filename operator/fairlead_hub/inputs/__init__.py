"""Messages from the cloud to inputs of modules, from the request to the node.

    request ─▶ submission     what a caller may send, with limits; its forms in messaging and at the edge
               node_queue     messages that wait for one node: in order per input, one in flight per input, until expiry

``io.inputs`` keeps them in messaging, delivers them, and answers callers.
"""
