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

Everything runs below one `unshare -m -n -p -u --fork --kill-child`: killing its pid 1 removes processes, mounts and
network. Only a folder and empty cgroups remain on the host; `down` removes both, and the janitor does
if the harness was killed. Several nodes can run at once: names and addresses come from the slot.
"""
