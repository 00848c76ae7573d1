"""How often, and after what waits, something that was not taken is sent again: to nodes, endpoints and subscribers.

``backoff``         pauses between attempts that never give up
``delivery``        the delivery policy: its four phases, its check, its delays
``curves``          how delays grow in the phase that backs off
``delivery_model``  the policy as a pydantic model, for settings and custom resources of the cluster
``delivery_text``   the policy in one line
"""
