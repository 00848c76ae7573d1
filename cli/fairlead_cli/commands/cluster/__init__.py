"""Commands that ask the API server of the cluster, and the hub where its answer is newer."""
