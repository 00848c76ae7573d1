"""Connections that lose packets or responses, or are slow."""
