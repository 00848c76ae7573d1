"""A real Kubernetes node on a bare machine, without a container engine.

    make e2e ─► __main__ ─► machine   what this machine lacks, and how to get it
                         ─► node      up, down, status, images, kubectl, helm
                         │     ├─ plan      names and addresses of one node, all from one slot
                         │     ├─ programs  what runs, with which flags and files       (pure)
                         │     ├─ cgroups   its own root in every hierarchy
                         │     ├─ link      veth to the host; claiming its name claims the slot
                         │     ├─ init      pid 1 below `unshare`: mounts, programs, reaping
                         │     └─ janitor   cleans up when the harness is killed
                         └─► e2e.story   the acceptance story, played on any cluster

Everything runs below one `unshare -m -n -p -u --fork --kill-child`: killing its pid 1 takes processes, mounts and
network along. What outlives it on the host is a folder and empty cgroups; `down` removes both, and the janitor does
when no one is left to say `down`. Two nodes live side by side: names and addresses come from the slot.
"""
