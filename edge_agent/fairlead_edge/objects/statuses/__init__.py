"""Status that programs on this node report of the objects it holds: read, judged, merged, kept, sent up.

    PATCH …/status ─patch─▶ what is asked ─allowed─▶ by which rule ─ownership─▶ merged ─reported─▶ kept with the object
                                                                                    sending ─▶ hub, newest first kept

No schemas are kept at the edge, so a list is one value here; the API server merges lists by their keys where the kind
says so.  The delivered content never holds a status, so nothing that the hub sends takes a reported one away.
"""
