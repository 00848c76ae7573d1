"""A node that speaks the link and keeps its store in memory, for `fairlead bench`, benchmarks and tests."""
