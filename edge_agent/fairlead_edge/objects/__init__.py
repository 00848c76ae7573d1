"""The objects of this node: the session that brings them, the store that holds them, what clients see of them.

    hub ══link══ sync ──Apply──▶ metastore ──watch_history──▶ presentation ──▶ kubectl, applications
                  │ ◀──Applied──
                  └──acks──▶ hub

``sync`` decides what one connection does, ``metastore`` holds (``memory_metastore`` for tests, ``io/objects`` on disk),
``content`` checks what arrives, ``kinds`` are the kinds held, ``watch_history`` the latest changes.
"""
