"""A device: its clock, disk, certificates, stores, link and agent; ``examine`` lists the checks."""
