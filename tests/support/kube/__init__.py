"""A real Kubernetes API, proxies in front of it, and what is installed in it."""
