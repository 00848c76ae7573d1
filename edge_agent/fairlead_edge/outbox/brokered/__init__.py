"""Messages for modules on this node: which one a module gets next, and what its answer means.

    endpoint (one input of one module) ──▶ priority (one log, its checkpoint) ──▶ delivery_state (of one message)
        ├────▶ policy (when it is given out again)
        └────▶ effects (what the driver is to do)

A message is leased to the module that took it.  Acknowledged, it is done; abandoned, or not acknowledged in time, it
is given out again after the wait that the delivery policy says, and when that allows no more it is a dead letter.
"""
