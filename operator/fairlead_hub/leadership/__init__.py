"""Which process is the hub: the Lease with its fencing number, and whether this process may still act."""
