"""What the cluster says: objects, rules, nodes, and which node should hold what."""
