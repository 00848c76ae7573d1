"""What edges publish, on its way into topics: batches, and who may name which topic."""
