"""Statuses that programs on this node report of its objects: parsed, checked, merged, stored, and sent to the hub.

    PATCH …/status ─patch─▶ StatusPatch ─status_store─▶ allowed by a rule? ─reported─▶ merged and stored
                                                        sending ─▶ hub

The edge keeps no schemas, so a list is a single value here; the API server merges lists by key if the kind says so.
Delivered content never contains a status, so an update from the hub does not remove a reported one.
"""
