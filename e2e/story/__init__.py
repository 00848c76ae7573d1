"""The acceptance story of an installation, played on any cluster: a bare node (`e2e.node`) or kind (`e2e.kind`).

    install ─► down ─► edge as a Pod ─► join ─► up ─► hub killed ─► upgrade ─► rollback ─► uninstall ─► again, all gone
       │         │          │             └── an agent outside that brings nothing but a token
       │         │          └── by a token in a Secret, which goes afterwards
       │         └── an agent outside the cluster, with files from a Secret, through the NodePort and mTLS
       └── helm install --wait, while the clock runs until the first object is on an edge

`cluster` says what the story needs of a cluster; `outside` is the agent beside it; `tokens`
admits devices; `telling` holds the chapters.
"""
