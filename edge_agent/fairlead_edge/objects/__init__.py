"""The objects of this node: the session that brings them, the store that holds them, what clients see of them.

    hub ══link══ session ──Apply──▶ metastore ──watch_history──▶ presentation ──▶ kubectl, applications
                  │      ◀──Applied──
                  └──acks──▶ hub

``session`` decides what one connection does: ``session_events`` are its events and effects, ``apply_queue`` its work
and its acks.  ``metastore`` holds and checks what arrives (``memory_metastore`` for tests, ``io/objects`` on disk),
``kinds`` are the kinds held, ``watch_history`` the latest changes, ``statuses`` what programs report of objects.
"""
