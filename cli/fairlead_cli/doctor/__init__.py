"""`fairlead doctor`: what is wrong with a device or with the cluster, and how to fix it.

    examination  runs checks beside each other, each with a time limit: a disk or a network that hangs is a finding, too
    device       a module for each group of checks: disk, clock, certificates, store, link, agent
    cluster      the same for documents of the Kubernetes API: installation, programs, objects

In each of the two, ``examine`` lists the checks.  A module first probes (reads a disk, dials the hub), then judges the
facts in pure functions.  A finding is one sentence and, where something is wrong, one remedy.  Nothing is changed: the
only thing written is a file of 4 KiB in the agent's folder, which is removed again, and a running agent keeps its lock,
its store and its link.
"""
