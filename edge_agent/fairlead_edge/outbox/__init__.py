"""Messages that leave this node: the queues they go into, what is stored, and the order in which they are sent.

    publishing ──▶ router (manifest) ──▶ outbox ──▶ pump ──▶ hub
                                            └────▶ brokered ──▶ modules on this node

``outbox`` is the port of the store and ``memory_outbox`` its in-memory twin for tests; ``queues``, ``envelope`` and
``age`` define the types both use; ``gaps`` and ``totals`` describe what a damaged disk lost.  ``plan`` limits when and
how much may be sent, ``receipts`` answers where a message is, and ``delivery`` has the retry policies.
"""
