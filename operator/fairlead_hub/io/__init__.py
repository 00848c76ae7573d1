"""The hub's rim: API server, WebSocket server, Lease, messaging, HTTP.  It acts; the package root decides.

Rooms by whom it talks to: ``cluster``, ``link``, ``messaging``, ``console``, ``identity``; HTTP for people and scrapers
stands here.
"""
