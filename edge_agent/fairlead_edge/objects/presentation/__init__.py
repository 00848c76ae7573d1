"""Objects as a Kubernetes client expects them.

    request ──api_requests──▶ discovery
                        └──▶ listing (selectors, pages, watches) ──▶ table (rows for people)

A request that cannot be answered ends as an ``ApiError``.
"""
