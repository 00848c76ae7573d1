"""The acceptance story of an installation, played on any cluster: a bare node (`e2e.node`) or kind (`e2e.kind`).

    install ─► down ─► edge as a Pod ─► up ─► hub killed ─► upgrade ─► rollback ─► uninstall ─► again, and all gone
       │         └── an agent outside the cluster, with files from a Secret, through the NodePort and mTLS
       └── helm install --wait, while the clock runs until the first object is on an edge

`cluster` says what the story needs of a cluster; `outside` is the agent beside it; `telling` holds the chapters.
"""
