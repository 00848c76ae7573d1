"""The console: pages that show people the state of the system.  Read-only and without I/O; ``io.console`` serves it.

    Hub ─survey, in slices─▶ Snapshot ─▶ pages ─▶ complete HTML, also without script
                                │
                                └─ LiveFrames (what changed since) ─▶ FrameRing ─▶ every open page

    node_line   one node as one row;  ``states`` names the states of a node
    snapshot    everything the pages show, at one moment;  ``survey`` collects it a few nodes at a time
    topics      rates and lags of topics, from two samples of messaging
    traces      the latest spans of this hub as trees;  ``trace_pages`` renders them
    events      recent events, newest first
    frames      updates for open pages: numbered, with a bounded number kept for pages that reconnect
    html        elements as values: text is escaped unless it is ``Html``
    pages       one function per page;  ``sections`` the parts of pages that are updated live
    access      who may see the console, and the headers of every answer
    static      the stylesheet and the script: no library, no build

The console never contains contents of objects: rows consist of names, counts, codes and reasons.
"""
