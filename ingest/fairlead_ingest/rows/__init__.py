"""From a message's payload to the columns of a row, or to the reason why it becomes a dead letter.

envelope    payload → columns that every upstream message has
schema      the schema file: which columns are read from bodies, and what becomes of a body that does not fit
ddl         the types in such a file, read without a Spark session
fitting     does a value fit its column exactly; looked at before Spark reads it
transforms  column expressions: typed columns, deduplication, lineage
letter_code code and fields of a dead letter
evolution   fields of bodies that no column takes yet, and the columns to add for them

transforms ─▶ schema ─▶ fitting ─▶ ddl        envelope ─▶ fitting
letter_code ─▶ envelope, schema
"""
