"""What edges publish, on its way into topics.

    frame ─▶ publish_batch   one batch into publish calls by topic, the order of each stream, and the topics that a node
                             may name: those its EdgeRoutes name or ever named

``io.upstream_publisher`` carries the calls out and answers the edge only after messaging has stored them.
"""
