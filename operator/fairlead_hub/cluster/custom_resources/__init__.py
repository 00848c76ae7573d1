"""The custom resources as Python types: what people write in them, what the hub writes, and their definitions.

    specs     SyncRule as people write it: read and judged by these models
    route_specs         the same for EdgeRoutes; the agent keeps to the same limits (``route_manifest`` in ``wire``)
    statuses  what the hub writes into them, and the records ObjectSync and EdgeNode
    structural_schema   a model ─▶ the schema Kubernetes takes
    definitions         all of them ─▶ crds/*.yaml (``operator/definitions.py`` writes the files)

The API server checks with the schema what the hub checks with the models, so both refuse the same.
"""
