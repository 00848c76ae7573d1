"""What people write is checked here: settings, manifests, policies, custom resources.

    document ─decoder refuses─▶ struct_mistakes (msgspec) ─┬─▶ Mistakes: key, reason, nearest right word
                               model_mistakes  (pydantic) ─┘

``mistakes``        the value both finders return, and the sentences made from it
``model``           base of the pydantic models: for programs of the cluster, never for the agent
``addresses``       an address as errors show it, without what may be a password
``file_path``, ``listen_address``  types of settings
``route_manifest``  the limits of a route manifest, which API server and agent both keep
"""
