"""A node moves to another hub, or out of service, with what it accepted delivered to the hub it has.

    move      the command: joins the new hub in a folder of its own, asks the agent to move, writes the settings file
    files     what both write there, and which rename is the switch
    mover     in the agent: delivers, closes the door for the last stretch, switches
    switch    at the next opening of the stores: identity, what belongs to the old cluster, settings
    leave     the other command: the same plan without a new hub; the node is out of service after the switch

Killed anywhere, all is as before the rename of ``plan.json`` to ``switched.json``, or all is completed after it.
"""
