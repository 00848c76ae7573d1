"""The objects of this node: the session that brings them, the store, and their presentation to clients.

    hub ══link══ session ──Apply──▶ metastore ──watch_history──▶ presentation ──▶ kubectl, applications
                  │      ◀──Applied──
                  └──acks──▶ hub

``session`` is the state machine of one connection: ``session_events`` are its events and effects, ``apply_queue`` is
its work queue with the acks.  ``metastore`` is the port of the store (``memory_metastore`` for tests, ``io/objects`` on
disk); ``kinds`` are the served kinds, ``watch_history`` the latest changes, ``statuses`` the statuses that programs
report.
"""
