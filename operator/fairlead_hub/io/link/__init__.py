"""The hub's side of the link: the listening port, the handshake, and a socket per session."""
