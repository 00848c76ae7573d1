"""What the hub reports as it happens.  These are hints; the status of our documents is authoritative.

    notices of status  ─▶ kube_events   counted where they repeat ─▶ Ready.kube_events  ─▶ API server
    hub, nodes, objects ─▶ cloud_events  in order, each once       ─▶ Ready.cloud_events ─▶ system topic

Both are bounded: events for which there is no room are dropped and counted.  The hub passes values to both; neither
"""
