"""Commands that ask the cluster's API server, and the hub if its answer is newer."""
