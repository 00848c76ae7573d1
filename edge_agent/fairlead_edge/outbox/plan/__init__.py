"""When messages may be sent, and how much: hours (windows), a budget for the day, and a rate.

gate (what the pump asks) ─┬▶ windows (hours of a time zone)
                           ├▶ day (bytes counted since the day began)
                           └▶ rate (a token bucket)

The plan holds back only messages: the session, its acknowledgements and its objects continue even if the budget is
used up.
"""
