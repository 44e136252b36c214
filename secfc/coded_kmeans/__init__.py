"""SecFC, exact k-means over coded rows: the algorithm, the order of its questions, prediction, its oracle."""
