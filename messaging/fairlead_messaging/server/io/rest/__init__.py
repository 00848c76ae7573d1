"""The HTTP interface.

listening ─→ authorization ─→ routes ─┬ messages        publish, store, rollback, poll
(connections)      (permissions)      ├ bulk            Arrow pages, plans, offsets
                                      ├ subscriptions
                                      └ transactions
http   what all handlers share: bounded bodies, content types, refusals as JSON
"""
