"""Downstream: how changes of objects reach nodes, what many idle nodes cost a hub, and what else a hub serves."""
