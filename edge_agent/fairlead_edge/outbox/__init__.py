"""Messages that leave this node: which queues they go into, what is stored, and in which order they go.

    publishing ──▶ router (manifest) ──▶ outbox ──▶ pump ──▶ hub
                                            └────▶ brokered ──▶ modules on this node

``outbox`` is the port of the store and ``memory_outbox`` its twin for tests; ``queues``, ``envelope`` and ``age`` are
its vocabulary; ``gaps`` and ``totals`` say what a damaged disk lost.  ``plan`` limits when and how much may leave,
``receipts`` answers where a message is, and ``delivery`` has the retry policies.
"""
