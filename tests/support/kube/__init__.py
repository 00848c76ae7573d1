"""A real Kubernetes API, what stands in front of it, and what is installed in it."""
