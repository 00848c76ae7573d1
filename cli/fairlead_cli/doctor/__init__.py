"""`fairlead doctor`: finds what is wrong with a device or with the cluster, and says how to fix it.

    examination  runs checks in parallel, each with a time limit: a disk or a network that hangs is a finding, too
    device       a module for each group of checks: disk, clock, certificates, store, link, agent
    cluster      the same for documents of the Kubernetes API: installation, programs, objects

In both, ``examine`` lists the checks.  A module first probes (reads a disk, connects to the hub), then judges the facts
in pure functions.  A finding is one sentence and, if something is wrong, one remedy.  Nothing is changed, except that a
file of 4 KiB is written to the agent's folder and removed; a running agent keeps its lock, its store and its link.
"""
