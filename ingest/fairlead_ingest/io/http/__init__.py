"""What a job answers over HTTP, from threads of its own.

health    ``/healthz``, ``/readyz``, ``/metrics``
receipts  ``/v1/receipts/ID``: is a message in a table
"""
