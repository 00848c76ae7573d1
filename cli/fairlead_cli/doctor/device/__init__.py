"""A device: its clock, disk, link, certificates, store and permissions.  Facts in, findings out; ``io`` gets the facts.

clock, disk, certificates, link, store, permissions, agent     one judge each
examine                                                        which probe feeds which judge
"""
