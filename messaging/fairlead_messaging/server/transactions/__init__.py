"""Transactions: who may be believed, and when."""
