"""Messages from the cloud to modules: accepted from callers, kept in messaging, delivered to nodes.

    caller ─▶ inputs_api (access: access_review) ─▶ inputs ─▶ input_log (messaging) ─▶ delivery, one per node
                                                                                        ─input▶ node ─ack▶

Without messaging ``inputs`` sends a message directly to a connected node, and the caller waits for its ack.
"""
