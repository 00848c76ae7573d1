"""Agents: the program, its local API, its outbox and its upstream link; thousands of routes."""
