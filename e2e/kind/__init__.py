"""The story of `e2e.story` on kind, for machines with a container engine.

make e2e-kind ─► __main__ ─► kind create cluster ─► our archives loaded ─► the story ─► kind delete cluster
"""
