"""What one namespace may take of the service: bytes a second, topics, stored bytes.

QuotaModel (settings) ─→ Quotas ─of(namespace)→ Quota
                                 ─ByteRate→ seconds until there is room for more
                                 ─StoredBytes→ how much a namespace holds: measured now and then, and what came since

Dead letters of pushes count where they are stored, and wait while there is no room.  Namespace ``system`` has none.
"""
