"""Reports of runs: data, and two ways to show them, tables and sentences for people, JSON for programs.

    from secfc.report import as_json, as_text, report
    found = report(result, federation=federation, algorithm=algorithm)
    print(as_text(found))

Any algorithm can be reported; one that has more to say of itself than its name and its values has a method
`account` (`secfc.run_summary`).  Nothing is read, written or timed here.  A report holds no point and no id.
"""

from secfc.kmeans.centers import FloatComparison, against_ordinary
from secfc.report.costs import count_rounds, phase_seconds, time_table, traffic_table
from secfc.report.data import Comparison, Report, compare_labelings, in_row_order, make_report, pool_points
from secfc.report.json import as_json, strict_json
from secfc.report.page import as_html, plane_sketch, plot_curve, plot_dendrogram
from secfc.report.people import (
    SIMULATED,
    as_text,
    print_notes,
    print_report,
    print_summary,
    report_summary,
    verdict_sentence,
)

__all__ = [
    "SIMULATED",
    "Comparison",
    "FloatComparison",
    "Report",
    "against_ordinary",
    "as_html",
    "as_json",
    "as_text",
    "print_summary",
    "compare_labelings",
    "in_row_order",
    "print_notes",
    "plot_curve",
    "plot_dendrogram",
    "pool_points",
    "make_report",
    "count_rounds",
    "phase_seconds",
    "print_report",
    "plane_sketch",
    "strict_json",
    "report_summary",
    "time_table",
    "traffic_table",
    "verdict_sentence",
]
