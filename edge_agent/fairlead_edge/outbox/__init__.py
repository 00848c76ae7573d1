"""Messages that leave this node: which queues they go into, what is stored, and in which order they go.

    publishing ──▶ router (manifest) ──▶ outbox ──▶ pump ──▶ hub
                                            └────▶ lease ──▶ modules on this node

``outbox`` is the port of the store and ``memory_outbox`` its twin for tests; ``queue_id``, ``envelope``,
``checkpoint``, ``age`` and ``in_flight`` are its vocabulary; ``gaps`` and ``totals`` say what a damaged disk lost.
"""
