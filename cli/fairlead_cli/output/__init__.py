"""Output of commands: for people as a table, for programs as JSON, YAML, names or JSONPath.

    -o, --no-headers, --color ──printer.options──▶ Printer ─┬─ items(view, rows)   a table, or a List with `items`
                                                            ├─ one(view, row)      a table of one row, or the row itself
                                                            ├─ document(value)     any value as JSON, YAML or JSONPath
                                                            └─ follow(view, pages) a line for each row that changed
    --watch ──printer.watch_option──▶ printer.changed_rows(ask, name) ─▶ pages, where polling is the only way to watch

A command declares its columns once and prints rows with them:

    VIEW = TableView(kind="edgenode", name=lambda row: row["metadata"]["name"], columns=(
        OutputColumn("NODE", lambda row: row["metadata"]["name"]),
        OutputColumn("STATE", lambda row: row["state"], style=lambda row: "good" if row["ready"] else "bad"),
        OutputColumn("AGENT", lambda row: row["agent"], wide=True),
    ))

    @click.command()
    @printer.options()
    def nodes(shown: Printer) -> None:
        shown.items(VIEW, rows, none="no edge nodes: label one with node-role.kubernetes.io/edge=")

Hints, notes and progress go to standard error with ``shown.say``, so that standard output contains only the result.
Colour is used only on a terminal, and not with NO_COLOR or TERM=dumb.  Nothing is ever truncated.

    printer ─▶ tables, jsonpath

``topic_lines`` prints one message per line; ``progress`` reports on long work; ``backoff_picture`` draws a
delivery policy.
"""
