"""The objects of this node: the session that brings them, the store that holds them, what clients see of them.

    hub ══link══ session ──Apply──▶ metastore ──watch_history──▶ presentation ──▶ kubectl, applications
                    │ ◀──Applied──
                    └──ack_tracker──▶ hub

``session`` decides what one connection does: ``chunks`` collects updates in parts, ``apply_queue`` orders the work,
``metastore`` holds, ``ack_tracker`` answers once a write is durable, ``entries`` packs what is held for a comparison.
``kinds`` are the kinds held, ``watch_history`` the latest changes.
"""
