"""The trace context that messages carry, and what is recorded of it.

``trace``       a W3C trace context
``sampling``    which traces are recorded
``span_names``  what spans and their attributes are called
``settings``    the table ``[traces]``; ``model`` is the same as a pydantic model, for programs of the cluster
"""
