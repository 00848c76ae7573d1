"""How commands show what they found: for people as a table, for programs as JSON, YAML, names or JSONPath.

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

What is shown beside the rows (hints, notes, progress) goes to standard error with ``shown.say``, so that standard
output holds nothing but what was asked for.  Colour: only on a terminal, and neither with NO_COLOR nor with TERM=dumb;
nothing is ever cut, neither on a terminal nor in a pipe.

    printer ─▶ tables, jsonpath

``topic_lines`` prints messages a line each; ``progress`` tells how far long work is; ``backoff_picture`` draws a
delivery policy.
"""
