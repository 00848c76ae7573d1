"""The hub and the messaging service: messages of nodes, and CloudEvents about the hub itself."""
