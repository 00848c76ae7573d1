"""Which dead letters the job is done with.

A job commits a batch's dead letters before its rows. Killed in between it makes the batch again, perhaps with another
schema, and what was a dead letter may then be a row. So only letters that lie within the table's own positions are
repaired; the others are the job's until its batch is in.

    topic's place in the table's log     settled
    known                                up to that place
    unknown, or only rows say it         what a backfill brought (it moves no positions)
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.source.offsets import Offsets


def mask(letters: pa.Table, reached: Offsets) -> pa.Array:
    """For each of ``letters`` (``_topic``, ``_id``, ``_batch``) whether it may be repaired."""
    topics = pc.unique(letters["_topic"]).to_pylist()
    found = pa.array([False] * letters.num_rows, pa.bool_())
    for topic in topics:
        is_topic = pc.equal(letters["_topic"], topic).combine_chunks()
        offset = reached.topics.get(topic)
        within = pc.less_equal(letters["_id"], "" if offset is None else offset.position)
        if offset is None or not offset.generation:
            within = pc.or_(within, pc.less(pc.fill_null(letters["_batch"], 0), 0))
        found = pc.or_(found, pc.and_(is_topic, within.combine_chunks()))
    return found
