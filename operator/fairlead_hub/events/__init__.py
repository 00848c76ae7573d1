"""What the hub reports as it happens: hints, while the truth is in the status of our documents.

    notices of status  ─▶ kube_events   counted where they repeat ─▶ Ready.kube_events  ─▶ API server
    hub, nodes, objects ─▶ cloud_events  in order, each once       ─▶ Ready.cloud_events ─▶ system topic

Both are bounded: what finds no room is dropped and counted.  Neither knows status or sessions: the hub passes values.
"""
