"""Transactions over topics: their messages are shown together or never.

    in progress ─commit→ committed
         ├─abort─────→ aborted ─┐
         └─deadline, operator→ invalid ─┴→ every row marked, so that no reader needs to know the pointer any more

    manager       the open ones, the order of commits, and conflicts: of two that changed one key only the first commits
    transaction   one record: its state, what it touched in each topic, and when its deadline ends it
    publishing    rows with the pointer; payloads stored first and published later by one reference; one publish undone
    visibility    the state of a row for a reader, and the first message a reader of committed messages waits for
    listing       open and finished ones, for operators
    commands      what the writer can be asked, typed by the answers
    availability  the manager while it is available, and the reason when it is not

A record and the rows it decides are written in one batch; a reader's snapshot holds both, so it needs nothing else.
"""
