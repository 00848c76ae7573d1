"""The hub and its nodes: the port they dial, the handshake, and a socket for each session."""
