"""What a command reports: tables and sentences for people, one JSON object for programs.

Pure functions of results.  Nothing is read, written or timed here; text goes to the `Console` that the
caller passes in.  Reports hold names, counts, parameters, scores, times and, where the algorithm made
them public, centers; never a point and never an id.
"""

from secfc.report.costs import rounds, seconds, time_table, traffic_table
from secfc.report.ordinary import Ordinary, against_ordinary
from secfc.report.outcome import Comparison, Outcome, compare, in_row_order, pooled
from secfc.report.people import show, verdict
from secfc.report.programs import as_json, strict

__all__ = [
    "Comparison",
    "Ordinary",
    "Outcome",
    "against_ordinary",
    "as_json",
    "compare",
    "in_row_order",
    "pooled",
    "rounds",
    "seconds",
    "show",
    "strict",
    "time_table",
    "traffic_table",
    "verdict",
]
