"""Presents objects as Kubernetes clients expect them.

    request ──api_requests──▶ discovery
                        └──▶ listing (selectors, pages, watches) ──▶ table (rows for people)

Requests that cannot be answered raise ``ApiError``.
"""
