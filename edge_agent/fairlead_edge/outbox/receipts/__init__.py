"""Where is this message?  Here, in its topic, in a table: what a node knows of messages it accepted, by their ids.

accepted    ``named``: the ids and authors of messages by their offsets (``mark``: of one)
left        ``departure``: settled, expired or evicted; of those in a topic, where they stand there
in a table  ``reached``: how far tables have read each topic, as the hub said last
``receipt`` puts these together; ``latency`` measures from acceptance to a table, by this node's clock alone
"""
