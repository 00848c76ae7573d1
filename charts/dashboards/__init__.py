"""The chart's Grafana dashboards, charts/fairlead/files/dashboards/*.json, made from tables of panels.

    .venv/bin/python -m charts.dashboards        # after a change here; a test fails while it is due

    hub, edges, messaging, ingest   which panels there are, and what each asks
    panels                          Grafana's JSON of one panel
    files                           whole dashboards, and the files they are written to

Each dashboard asks for its data source (variable `datasource`). A panel has a unit, a sentence that says what one sees
in it, and one or more queries. Nothing is random: a change of a query is one changed line in the JSON. Hub, messaging
and ingest run as one Pod each, so their queries add up over all; edge agents differ in the label `node`, which
Prometheus gives them, and by `instance`.
"""
