"""Agents: the program, its local API, its outbox and its line up; routes by the thousand."""
