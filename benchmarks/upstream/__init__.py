"""Upstream: what an edge agent accepts, decides, keeps and sends."""
