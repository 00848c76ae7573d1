"""Messages from the cloud for inputs of modules, from the request to the node.

    request ─▶ submission   what a caller may send, bounded, as it is kept in messaging and stored at the edge
               node_queue   what waits for one node: in order for each input, one of each on its way, until it expires

``io.inputs`` keeps them in messaging, delivers them, and answers callers.
"""
