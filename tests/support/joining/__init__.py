"""Certificates: an authority for tests, devices that join, hubs that admit them."""
