"""`fairlead doctor`: what is wrong with a device, or with the cluster side, and how to mend it.

    device/io   probes: reads a disk, a clock, a certificate, dials the hub  ─▶ facts
    device      judges: facts ─▶ findings, pure
    cluster     the same for documents of the Kubernetes API
    examination runs probes beside each other, each with a limit: a disk or a network that hangs is a finding, too

A finding is one sentence and, where something is wrong, one remedy.  Nothing is changed: the only thing written is a
file of 4 KiB in the agent's folder, which is removed again, and a running agent keeps its lock, its store and its link.
"""
