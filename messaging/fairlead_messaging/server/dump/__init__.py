"""Reading a store that no service has open, row by row, for people: `fairlead messaging dump`.

    snapshot ─(ranges of selection)→ row_key ─(selection matches)→ row_value ─→ one dict a row, or counts
                                        └─cannot be read──────────────┴─→ its raw key and why; the walk goes on

    row_key     which table a key is of, and what it names: topic, generation, position, transaction
    row_value   what a value holds, checked strictly: a damaged row must not look like another one
    selection   which tables and rows were asked for, as key ranges where that is possible
    table_dump  the walk over the tables, and the counts

Nothing here writes, and ``io.stores.offline_store`` opens the store so that its engine does not either.
"""
