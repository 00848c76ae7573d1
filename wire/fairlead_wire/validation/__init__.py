"""Validation of what people write: settings, manifests, policies and custom resources.

    document ─reader─▶ struct (msgspec) or model (pydantic)
                └─────▶ mistakes: key, reason, "did you mean"

``reader``          reads a document, and finds every mistake in a refused one; has one interface for both libraries
``mistakes``        a mistake, and the sentences made from types, limits and values
``model``           the base class and reader of pydantic models, for the cluster's programs, never for the agent
``addresses``       addresses as errors show them, without passwords
``json_encoding``   JSON of what a program gives us, without numbers that JSON does not have
``file_path``, ``listen_address``  types of settings
``mqtt_text``       text that MQTT cannot carry
``route_manifest``  limits of a route manifest, which both API server and agent enforce
"""
