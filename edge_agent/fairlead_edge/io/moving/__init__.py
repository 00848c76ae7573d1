"""Moves a node to another hub, or out of service, after its accepted messages were delivered to the old hub.

    move      the command: joins the new hub in a separate folder, asks the agent to move, writes the settings file
    files     the files that command and agent share, and the rename that decides
    mover     in the agent: delivers, refuses producers for the last stretch, switches
    switch    at the next opening of the stores: identity, data of the old cluster, settings
    leave     the other command: the same plan without a new hub; the node is out of service after the switch

A crash before ``plan.json`` is renamed to ``switched.json`` leaves everything as it was; after it, the next start
completes the move.
"""
