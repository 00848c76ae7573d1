"""The disks, sockets, clocks and threads of the service.

    rest (HTTP) ─→ broker ─change→ committer ─batches→ stores
                     │  └─read→ snapshot_readers ─→ a snapshot, in a thread
                     ├─ transaction_keeper  ends transactions that time out, marks rows of aborted ones
                     ├─ cleaner             removes what cannot be read any more
                     └─ pusher              one task for each subscription, whose steps push_performer carries out
    access_control, token_reviewer   identify callers: certificates, tokens, grants reloaded from the settings
    quota_keeper, metrics            what namespaces use, and what is counted

The packages above decide what to do; this one does it.
"""
