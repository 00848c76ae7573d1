"""Values as text for people: pure functions, without a terminal.

``printable``  texts of others: a terminal shows them and obeys nothing in them
``redaction``  texts and documents without what may be a secret
``ages``, ``to_table``   how long ago, how long to a table
``diff_text``, ``yaml_text``            documents: their differences, and as YAML
"""
