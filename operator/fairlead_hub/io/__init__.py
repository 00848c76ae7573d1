"""The hub's I/O: API server, WebSocket server, Lease, messaging, HTTP.  Modules outside this package decide.

Subpackages by peer: ``cluster``, ``link``, ``messaging``, ``console``, ``identity``; HTTP for people and scrapers is
directly in this package.
"""
