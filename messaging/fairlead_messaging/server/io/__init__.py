"""Acts: disks, sockets, clocks and threads of the service.

    rest (HTTP) ─→ broker ─change→ committer ─batches→ stores
                     │  └─read→ threads over snapshots
                     ├─ notifier   wakes long polls when a batch is durable
                     └─ pusher     one task for each subscription

What is decided stands in the rooms above; here it is done.
"""
