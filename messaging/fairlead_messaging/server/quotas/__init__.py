"""What one namespace may take of the service: bytes a second, topics, stored bytes.

QuotaModel (settings) ─→ Quotas ─of(namespace)→ Quota
                                 ─ByteRate→ seconds until there is room for more
                                 ─StoredBytes→ how much a namespace holds: measured now and then, and what came since

The service's own writes (dead letters of pushes, cleaning) and namespace ``system`` have none.
"""
