"""Messages from the cloud to modules: taken from callers, kept in messaging, delivered to nodes.

    caller ─▶ inputs_api (who may: access_review) ─▶ inputs ─▶ input_log (messaging) ─▶ delivery, one for each node
                                                                                        ─input▶ node ─ack▶

Without messaging ``inputs`` hands a message straight to a connected node, and the caller waits for its ack.
"""
