"""Tools for a contract before it goes live: try it on messages, compare it with its predecessor, propose a first one.

trial       the rows, dead letters, unknown fields and routes a job would make of messages
comparison  what a new version means for a live table and for messages that fitted the old one
proposal    a first contract, derived from messages
guess       the narrowest type that holds every value of a field

trial, proposal ─▶ guess        comparison        (all use ``rows``, so the job's own code judges)
"""
