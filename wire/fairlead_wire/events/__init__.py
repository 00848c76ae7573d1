"""What programs publish of themselves on system topics.

``event``        one event, in the form of CloudEvents 1.0
``event_types``  every type there is: when, and with which data
"""
