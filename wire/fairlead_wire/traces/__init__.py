"""The trace context that messages carry, and what is recorded.

``trace``       the W3C trace context, and the sampler
``span_names``  names of spans and their attributes
``settings``    the settings table ``[traces]``; ``model`` is its pydantic form, for the cluster's programs
"""
