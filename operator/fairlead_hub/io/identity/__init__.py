"""Certificates for nodes: signers, JoinTokens as they change, and the conversation of a device that has none yet."""
