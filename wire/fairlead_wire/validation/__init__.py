"""What people write is checked here: settings, manifests, policies, custom resources.

    document ─reader─▶ struct (msgspec) or model (pydantic)
                └─────▶ mistakes: key, reason, "did you mean"

``reader``          reads a document, and finds every mistake in one that is refused, whichever library it is for
``mistakes``        a mistake, and the sentences made from types, limits and values
``model``           base of the pydantic models and their reader: for programs of the cluster, never for the agent
``addresses``       an address as errors show it, without what may be a password
``file_path``, ``listen_address``  types of settings
``route_manifest``  the limits of a route manifest, which API server and agent both keep
"""
