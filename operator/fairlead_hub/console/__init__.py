"""The console: pages that show people the state of the system.  Read-only and without I/O; ``io.console`` serves it.

    Hub ─survey, in slices─▶ Snapshot ─▶ pages ─▶ complete HTML, also without script
                                │
                                └─ LiveFrames (what changed since) ─▶ FrameRing ─▶ every open page

    lines       a node, a topic, an event: one line each
    snapshot    everything the pages show, at one moment;  ``survey`` collects it a few nodes at a time
    traces      the latest spans of this hub as trees, and how pages show them
    frames      updates for open pages: numbered, with a bounded number kept for pages that reconnect
    html        elements as values: text is escaped unless it is ``Html``
    pages       one function per page;  who may see them, and the headers of every answer
    sections    the parts of pages that are updated live
    static      the stylesheet and the script: no library, no build

The console never contains contents of objects: rows consist of names, counts, codes and reasons.
"""
