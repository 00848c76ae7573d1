"""What the hub writes into the API: ObjectSync, ClusterObjectSync, EdgeNode, and the status of rules."""
