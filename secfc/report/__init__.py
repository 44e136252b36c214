"""Reports of runs: data, and two ways to show them, tables and sentences for people, JSON for programs.

    from secfc.report import as_json, as_text, report
    found = report(result, federation=federation, algorithm=algorithm)
    print(as_text(found))

Any algorithm can be reported; one that has more to say of itself than its name and its values has a method
`account` (`secfc.account`).  Nothing is read, written or timed here.  A report holds no point and no id.
"""

from secfc.report.costs import rounds, seconds, time_table, traffic_table
from secfc.report.data import Report, report
from secfc.report.ordinary import Ordinary, against_ordinary
from secfc.report.outcome import Comparison, compare, in_row_order, pooled
from secfc.report.page import as_html
from secfc.report.people import as_text, show, verdict
from secfc.report.pictures import plot_curve
from secfc.report.programs import as_json, strict
from secfc.report.sketch import sketch
from secfc.report.summary import SIMULATED, brief, notes, summary

__all__ = [
    "SIMULATED",
    "Comparison",
    "Ordinary",
    "Report",
    "against_ordinary",
    "as_html",
    "as_json",
    "as_text",
    "brief",
    "compare",
    "in_row_order",
    "notes",
    "plot_curve",
    "pooled",
    "report",
    "rounds",
    "seconds",
    "show",
    "sketch",
    "strict",
    "summary",
    "time_table",
    "traffic_table",
    "verdict",
]
