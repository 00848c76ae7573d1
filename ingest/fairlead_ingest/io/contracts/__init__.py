"""Contract files, and what plays a contract before it goes live.

files     a contract as it is on the disk
messages  committed messages of a topic, the newest or since a time, without leaving a reader's position
held      what a table that is there says to a contract

files        messages ─▶ topics        held ─▶ table
"""
