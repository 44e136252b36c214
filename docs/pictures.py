"""Who sends what to whom, and the decision tree of policies: `python -m docs.pictures` draws them anew.
`python -m docs.pictures --screens` takes pictures of a report's page, with Chromium.

SVG with nothing from elsewhere: a panel with its own background, so it reads on light and dark pages, and
other colors where the reader's system is dark.
"""

import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from functools import partial
from html import escape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread

from docs.ways import TREE, Fork
from tests.browser import CHROMIUM, QUIET

PLACE = Path(__file__).parent / "pictures"
EXAMPLE = ["-k", "3", "--id-column", "patient", "--standardize", "--seed", "0"]

STYLE = """
  .panel{fill:#f7faf9;stroke:#c9d6d3}.box{fill:#fff;stroke:#00796b;stroke-width:1.6}.committee{fill:#e0f2f1}
  .server{fill:#eceff1;stroke:#546e7a}.leaf{fill:#e0f2f1;stroke:#00796b}
  text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:17px;fill:#1c2b29}
  .small{font-size:15px;fill:#40514e}.bold{font-weight:600}.line{stroke:#00796b;stroke-width:2;fill:none}
  .number{fill:#00796b}.digit{fill:#fff;font-weight:600;font-size:15px}.tip{fill:#00796b}
  @media (prefers-color-scheme:dark){
    .panel{fill:#18211f;stroke:#3a4a47}.box{fill:#22302d;stroke:#4db6ac}.committee{fill:#14403b}
    .server{fill:#2b3438;stroke:#90a4ae}.leaf{fill:#14403b;stroke:#4db6ac}
    text{fill:#e6efed}.small{fill:#b8c9c5}.line{stroke:#4db6ac}.number,.tip{fill:#4db6ac}.digit{fill:#10201d}
  }
"""


def svg(width, height, title, body):
    named = escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{named}">\n'
        f"<title>{named}</title>\n<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>\n'
        f'<rect class="panel" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/>\n'
        f"{body}\n</svg>\n"
    )


def box(x, y, width, height, lines, kind="box"):
    """A box with lines of text in its middle; the first is bold."""
    top = y + height / 2 - 10.5 * (len(lines) - 1) + 6
    texts = "".join(
        f'<text class="{"small" if i else "bold"}" x="{x + width / 2}" y="{top + 21 * i}" '
        f'text-anchor="middle">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return f'<rect class="box {kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>{texts}'


def arrow(path, both=False):
    start = ' marker-start="url(#tip)"' if both else ""
    return f'<path class="line" d="{path}" marker-end="url(#tip)"{start}/>'


def step(x, y, number, lines):
    """A numbered note."""
    texts = "".join(
        f'<text class="{"small" if i else ""}" x="{x + 20}" y="{y + 6 + 20 * i}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<circle class="number" cx="{x}" cy="{y}" r="12"/>'
        f'<text class="digit" x="{x}" y="{y + 5}" text-anchor="middle">{number}</text>{texts}'
    )


def who_sends_what():
    parts = [
        box(20, 22, 150, 62, ["client 1", "its own points"]),
        box(220, 22, 150, 62, ["client 2", "its own points"]),
        box(470, 22, 150, 62, ["client n", "its own points"]),
        '<text class="bold" x="420" y="59" text-anchor="middle">...</text>',
        arrow("M172 53H218", both=True),
        arrow("M372 53H402", both=True),
        arrow("M438 53H468", both=True),
        step(36, 116, 1, ["once: shares of every point, to all", "other clients; any t of them say nothing"]),
        arrow("M420 92V196"),
        step(442, 128, 2, ["each step:", "masked distances"]),
        box(
            20,
            202,
            600,
            62,
            [
                "a committee of more than t of the clients",
                "compares on shares; who is nearer stays masked, even from it",
            ],
            "committee",
        ),
        arrow("M160 268V336"),
        step(184, 294, 3, ["masked labels; while a start", "is drawn, also what splits gain"]),
        box(20, 342, 340, 62, ["server", "unmasks labels: no point, none of its distances"], "server"),
        arrow("M362 373H496V272"),
        step(520, 306, 4, ["labels,", "to all; again", "until none", "changes"]),
    ]
    return svg(640, 424, "Who sends what to whom in a run under the default policy", "\n".join(parts))


def who_has_columns():
    parts = [
        box(20, 22, 180, 62, ["clinic", "age, bmi of its people"]),
        box(230, 22, 180, 62, ["bank", "income of its people"]),
        box(440, 22, 180, 62, ["helper", "no data"]),
        arrow("M202 53H228", both=True),
        arrow("M412 53H438", both=True),
        step(36, 116, 1, ["once: which people both owners hold", "server: how many hold each, not which"]),
        step(36, 170, 2, ["once: shares of one's columns, to all", "side by side: shares of joined rows"]),
        arrow("M420 92V216"),
        step(442, 150, 3, ["each step:", "shares of distances"]),
        box(20, 222, 600, 62, ["any two of the three", "compare on shares of joined rows"], "committee"),
        arrow("M160 288V356"),
        step(184, 314, 4, ["each step: sizes of clusters"]),
        box(20, 362, 340, 62, ["server", "no value, distance of a point, or label of a step"], "server"),
        arrow("M560 288V356"),
        box(400, 362, 220, 62, ["owners", "labels of their people"]),
        step(36, 452, 5, ["labels tell each owner of the other's columns:", "who is high or low"]),
    ]
    return svg(640, 492, "Columns at different parties: who sends what to whom", "\n".join(parts))


def density():
    """Points of tutorial 13, by the labels of k-means and of DBSCAN."""
    page = (PLACE.parent / "tutorials" / "13_clusters_of_any_shape.md").read_text()
    ran = {}
    with redirect_stdout(StringIO()):
        exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], ran)
    parts = []
    for left, result, name in ((10, ran["means"], "k-means, k = 2"), (330, ran["result"], "DBSCAN")):
        parts.append(f'<text class="bold" x="{left + 155}" y="34" text-anchor="middle">{name}</text>')
        for own, labels in zip(ran["sites"].values(), result.labels, strict=True):
            for (x, y), label in zip(own.tolist(), labels.tolist(), strict=True):
                fill, line = {-1: ("none", "#8a8f98"), 0: ("#00897b", "none"), 1: ("#e07b39", "none")}[label]
                at = f'cx="{left + 125 + 68 * x:.0f}" cy="{172 - 68 * y:.0f}"'
                parts.append(f'<circle {at} r="3.5" fill="{fill}" stroke="{line}"/>')
    parts.append('<text class="small" x="325" y="296" text-anchor="middle">rings: noise</text>')
    return svg(650, 312, "The same points in clusters of k-means and of DBSCAN", "\n".join(parts))


def choose(node=TREE):
    """The decision tree, a row a question or an end, each below the one that led to it."""
    parts, at = [], [30.0]

    def draw(node, depth, answer, above):
        x, y = 24 + 30 * depth, at[0]
        at[0] += 42 if isinstance(node, Fork) else 58
        if above is not None:
            parts.append(f'<path class="line" d="M{x - 19} {above + 13}V{y}H{x - 4}"/>')
            parts.append(f'<text class="small bold" x="{x}" y="{y + 5}">{answer}</text>')
        left = x + (0 if above is None else 40)
        if isinstance(node, Fork):
            parts.append(f'<text class="bold" x="{left}" y="{y + 6}">{escape(node.question)}</text>')
            draw(node.yes, depth + 1, "yes", y)
            draw(node.no, depth + 1, "no", y)
        else:
            parts.append(
                f'<rect class="box leaf" x="{left - 6}" y="{y - 16}" width="{780 - left}" height="48" '
                'rx="8"/>'
            )
            parts.append(f'<text class="bold" x="{left + 4}" y="{y + 4}">{escape(node.code)}</text>')
            parts.append(f'<text class="small" x="{left + 4}" y="{y + 23}">{escape(node.why)}</text>')

    draw(node, 0, "", None)
    return svg(800, int(at[0]) + 4, "Which policy: a tree of questions", "\n".join(parts))


# Of a page: where it is, width and height in CSS pixels, pixels of the picture for each, the reader's colors.
SCREENS = {
    "report_wide": ("report.html", 860, 1150, 0.5, "light"),
    "report_narrow": ("report.html", 420, 1150, 0.62, "dark"),
    "site_wide": ("site/docs/index.html", 1280, 900, 0.36, "light"),
    "site_narrow": ("site/docs/choose/index.html", 420, 900, 0.5, "dark"),
}


def take_screens():
    """What a browser shows of the report of the example's rows, and of the site, as PNG."""
    with tempfile.TemporaryDirectory() as place:
        secfc = [sys.executable, "-m", "secfc.cli"]
        subprocess.run([*secfc, "example", "rows"], cwd=place, check=True)
        files = sorted(str(file.relative_to(place)) for file in Path(place, "rows").glob("*.csv"))
        made = ["--report", "report.html", "--readers", "holders"]
        subprocess.run([*secfc, "run", *files, *EXAMPLE, *made], cwd=place, check=True)
        mkdocs = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", f"{place}/site"]
        subprocess.run(mkdocs, cwd=PLACE.parent.parent, check=True)
        handler = partial(SimpleHTTPRequestHandler, directory=place)
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:  # scripts of the site ask for it
            Thread(target=server.serve_forever, daemon=True).start()
            for name, (page, width, height, scale, colors) in SCREENS.items():
                dark = ["--blink-settings=preferredColorScheme=0"] if colors == "dark" else []
                window = [f"--window-size={width},{height}", f"--force-device-scale-factor={scale}"]
                shot = [f"--screenshot={PLACE / name}.png", f"http://127.0.0.1:{server.server_port}/{page}"]
                profile = [f"--user-data-dir={place}/{name}", "--virtual-time-budget=3000"]
                command = [CHROMIUM, *QUIET, *profile, *window, *dark, *shot]
                subprocess.run(command, check=True, capture_output=True)
            server.shutdown()


def main():
    PLACE.mkdir(exist_ok=True)
    if sys.argv[1:] == ["--screens"]:
        take_screens()
        return
    (PLACE / "choose.svg").write_text(choose())
    (PLACE / "columns.svg").write_text(who_has_columns())
    (PLACE / "density.svg").write_text(density())
    (PLACE / "who_sends_what.svg").write_text(who_sends_what())


if __name__ == "__main__":
    main()
