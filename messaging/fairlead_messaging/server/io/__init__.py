"""Acts: disks, sockets, clocks and threads of the service.

    rest (HTTP) ─→ broker ─change→ committer ─batches→ stores
                     │  └─read→ snapshot_readers ─→ a snapshot, in a thread
                     ├─ notifier            wakes long polls when a batch is durable
                     ├─ transaction_keeper  ends transactions whose time is up, marks rows of aborted ones
                     ├─ cleaner             removes what cannot be read any more
                     └─ pusher              one task for each subscription

What is decided stands in the rooms above; here it is done.
"""
