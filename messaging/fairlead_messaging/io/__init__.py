"""Acts: everything that touches disk, net, clock or cluster."""
