"""The hub's rim: API server, WebSocket server, Lease, messaging, HTTP.  It acts; the package root decides."""
