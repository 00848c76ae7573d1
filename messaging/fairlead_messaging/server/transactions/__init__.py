"""Transactions over topics: their messages are shown together or never.

    in progress ─commit→ committed
         ├─abort─────→ aborted ─┐
         └─deadline, operator→ invalid ─┴→ every row marked, so that no reader needs to know the pointer any more

    manager      the open ones, and the order of commits
    deadline     when one ends by itself: not renewed, too old, or readers waited for it too long
    conflicts    which keys were committed meanwhile: of two that changed one, only the first commits
    transaction  one record: state, and what it touched in each topic
    publish      rows with the pointer; payloads stored first, published later by one reference
    rollback     one publish undone, in bounded pieces
    listing      open and finished ones, for operators
    visibility   the state of a row for a reader: committed, aborted, uncommitted
    uncommitted  the first message a committed reader waits for: it bounds the last stable offset
    commands     what the writer can be asked, typed by the answers

A record and the rows it decides are written in one batch; a reader's snapshot holds both, so it needs nothing else.
"""
