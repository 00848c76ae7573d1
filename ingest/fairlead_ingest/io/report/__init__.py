"""What a report says about tables, counted from the tables.

table_facts   one table and its side tables ─┬─ row_counts     a few columns read, never the bodies, in batches
                                             └─ file_sizes     files by size, and what opening one costs here
"""
