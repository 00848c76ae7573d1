"""When messages may leave, and how much: the hours of windows, the day's budget of the line, and its rate.

gate (what the pump asks) ─┬▶ windows (hours of a time zone)
                           ├▶ day (bytes counted since the day began)
                           └▶ rate (a token bucket)

All of it only holds messages back; a session, its acknowledgements and its objects go on whatever is used up.
"""
