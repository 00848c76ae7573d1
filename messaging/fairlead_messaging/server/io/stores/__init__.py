"""Stores behind the ordered key-value port."""
