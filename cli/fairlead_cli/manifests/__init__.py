"""Files of manifests: what is wrong with them, each mistake with its line (``source_locations``)."""
