"""Push subscriptions: committed messages sent to an HTTP endpoint, one by one, in order.

    push (a script of steps) ─Read→ push_page ─Send→ io.pusher ─2xx→ position moves on   delivered
                                                        ├─try later→ wait, send again    by the delivery policy
                                                        └─final→ dead letter topic       or dropped, counted either way

    subscription  the durable record: position, attempts, counts; its endpoint, dead letters and the policy in force
    changes       how the single writer changes records
    push          the script, and how each outcome changes the record

Invariant: every committed message after the start of a subscription is counted once, as delivered, dead-lettered,
dropped or expired; the position and its count are one write.
"""
