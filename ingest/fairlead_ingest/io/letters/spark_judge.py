"""Letters into rows through Spark, by the job's own query: its schema file, its transforms, its lineage."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from fairlead_ingest.io.letters.plain_judge import numbered, pages
from fairlead_ingest.io.pipeline.query import shaped, source_options
from fairlead_ingest.io.spark.session import activate
from fairlead_ingest.io.spark.spark_errors import coded
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.settings import IngestSettings, Pipeline


class SparkJudge:
    """Of one pipeline; the schema file is read anew for each chunk, as its table may have grown."""

    def __init__(self, session: SparkSession, settings: IngestSettings, pipeline: Pipeline) -> None:
        self._session = session
        self._settings = settings
        self._pipeline = pipeline

    def __call__(self, letters: pa.Table) -> pa.Table:
        with coded():
            options = SourceOptions.of(source_options(self._session, self._settings, self._pipeline))
            activate(self._session)
            rows = self._session.createDataFrame(pages(letters, options.decoder()))
            return numbered(shaped(rows, self._settings, self._pipeline).toArrow())
