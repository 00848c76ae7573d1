"""The hub and the API server: what it watches, what it writes, and the Lease by which one hub serves.

api_access, api_error ── kube   a client of raw bytes
reflector ── kind_watch ── watches   kinds that rules name; kopf_handlers: kinds of our own
status_writer, event_recorder   what the hub writes
lease_keeper
"""
