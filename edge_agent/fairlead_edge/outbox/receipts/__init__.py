"""Where is this message?  On the node, in its topic, or in a table: what a node knows of messages it accepted, by id.

accepted    ``marks``: the ids and authors of messages, by offset
left        ``departure``: settled, expired or evicted; for those in a topic, their positions there
in a table  ``receipt``: how far tables have read each topic, by the hub's latest report
``receipt`` combines these; ``latency`` measures the time from acceptance to a table, by this node's clock alone.
"""
