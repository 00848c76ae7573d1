"""Messages for modules on this node: which one a module gets next, and what follows from its answer.

    endpoint (one input of one module) ──▶ priority (one log: its checkpoint, and the state of each message)

A message is leased to the module that pulled it.  Once acknowledged, it is done.  When it is abandoned, or not
acknowledged in time, it is delivered again after the delay of the delivery policy; when that allows no more attempts it
becomes a dead letter.
"""
