"""Messages from edges, on their way to topics.

    frame ─▶ publish_batch      turns a batch into publish calls by topic; the order of each stream; the topics that a
                                node may publish to: those its EdgeRoutes name or have ever named

``io.upstream_publisher`` makes the calls and answers the edge only after messaging has stored the messages.
"""
