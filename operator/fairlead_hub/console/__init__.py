"""The console: pages on which people see where everything stands.  Read-only, and pure; ``io.console`` serves it.

    Hub ─survey, in slices─▶ Snapshot ─▶ pages ─▶ complete HTML, also without script
                                │
                                └─ LiveFrames (what changed since) ─▶ FrameRing ─▶ every open page

    node_line   one node as one row;  ``states`` names what a node may be in
    snapshot    everything the pages show, of one moment;  ``survey`` collects it a few nodes at a time
    topics      rates and lags of topics, from two looks at messaging
    traces      the latest spans of this hub as trees;  ``trace_pages`` shows them
    events      what happened, the newest first
    frames      what open pages are sent: numbered, a bounded number kept for those that come back
    html        elements as values: text is escaped because it is no ``Html``
    pages       one function a page;  ``sections`` the parts of them that change while one looks
    access      who may look, and what every answer's headers say
    static      the stylesheet and the script: no library, no build

Contents of objects never come here: rows are made of names, counts, codes and reasons.
"""
