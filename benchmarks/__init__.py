"""Benchmarks: scripts over grids.  Each names the table or figure it answers; none is installed."""

from benchmarks.installed import choose

choose()
