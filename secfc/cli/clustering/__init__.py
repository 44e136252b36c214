"""`secfc run`: from options and files to a run, its checks and its results."""
