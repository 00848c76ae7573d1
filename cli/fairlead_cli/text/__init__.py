"""Values as text for people: pure functions, without a terminal.

``printable``   untrusted text: a terminal shows it and interprets nothing in it
``quantities``  how long ago, how many, how long to a table
``yaml_text``   documents as YAML
"""
