"""The custom resources as Python types: what users write, what the hub writes, and their definitions.

    specs               SyncRule as users write it: parsed and validated by these models
    route_specs         the same for EdgeRoutes; the agent enforces the same limits (``route_manifest`` in ``wire``)
    statuses  what the hub writes into them, and the records ObjectSync and EdgeNode
    structural_schema   converts a model into the schema that Kubernetes accepts
    definitions         converts all of them into crds/*.yaml (``operator/definitions.py`` writes the files)

The API server validates with the schema what the hub validates with the models, so both refuse the same objects.
"""
