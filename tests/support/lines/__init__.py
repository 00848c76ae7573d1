"""Connections that lose packets or answers, or are slow."""
