"""Status that programs on this node report of the objects it holds: read, judged, merged, kept, sent up.

    PATCH …/status ─patch─▶ what is asked ─status_store─▶ allowed by which rule? ─reported─▶ merged, kept
                                                          sending ─▶ hub, newest first kept

No schemas are kept at the edge, so a list is one value here; the API server merges lists by their keys where the kind
says so.  The delivered content never holds a status, so nothing that the hub sends takes a reported one away.
"""
