"""What the hub reports as it happens: Kubernetes Events, and CloudEvents on the system topic."""
