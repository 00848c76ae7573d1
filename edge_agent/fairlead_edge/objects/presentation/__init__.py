"""Objects as a Kubernetes client expects them.

    request ──paths──▶ discovery
                 └──▶ listing (selectors, pages, watches) ──▶ table (rows for people)

A request that cannot be answered ends as one of ``api_errors``.
"""
