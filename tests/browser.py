"""Pages in a headless browser: their width, broken pictures, commands that are cut off, what they fetch."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

# Loads every page in a frame of this width: how wide it came out, which pictures are broken, what it fetched
# from elsewhere.
PROBE = """<!doctype html><iframe id=f style="width:{width}px;height:900px;border:0"></iframe><script>
(async () => {{
  const rows = [], frame = document.getElementById("f");
  for (const page of {pages}) {{
    await new Promise((done) => {{ frame.onload = done; frame.src = page; }});
    const found = frame.contentDocument;
    const broken = [...found.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src);
    const boxes = [...found.querySelectorAll(".language-sh pre > code")];
    broken.push(...boxes.filter((b) => b.scrollWidth > b.clientWidth + 1).map((b) => b.textContent));
    const asked = frame.contentWindow.performance.getEntriesByType("resource").map((entry) => entry.name);
    const away = asked.filter((name) => !name.startsWith(location.origin));
    rows.push([page, found.documentElement.scrollWidth, broken, away]);
  }}
  await fetch("rows", {{method: "POST", body: JSON.stringify(rows)}});
}})();
</script>"""


def complaints(folder: Path, pages: Sequence[str], width: int, profile: Path) -> list[Any]:
    """Of pages in a folder: those wider than this, with broken pictures, or that fetch from elsewhere.

    A page that does all three is looked at as well, and has to be found.  profile: a folder of the browser.
    """
    assert CHROMIUM is not None
    control = '<img src="http://example.org/a.png" style="width:3000px;height:9px;display:block">'
    (folder / "control.html").write_text(f"<!doctype html>{control}")
    (folder / "probe.html").write_text(PROBE.format(width=width, pages=json.dumps([*pages, "control.html"])))
    told: queue.Queue[Any] = queue.Queue()
    handler = functools.partial(Told, told, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [
                CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                f"--window-size={width},1000", f"http://127.0.0.1:{server.server_port}/probe.html",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            rows = told.get(timeout=150)
        finally:
            browser.terminate()
            browser.wait(20)
            server.shutdown()
    *rows, (_, wide, broken, away) = rows
    assert wide > width
    assert broken
    assert away == ["http://example.org/a.png"]
    assert [page for page, *_ in rows] == list(pages)
    return [row for row in rows if row[1] > width or row[2] or row[3]]


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Where a folder's pages are asked for."""
    handler = functools.partial(Told, queue.Queue(), directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Told(SimpleHTTPRequestHandler):
    """Serves the pages, and hears what the probe found."""

    def __init__(self, told: queue.Queue[Any], *rest: Any, **options: Any) -> None:
        self.told = told
        super().__init__(*rest, **options)

    def do_POST(self) -> None:
        self.told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


# What is wrong with a page as it is shown now.
FAULTS = (Path(__file__).parent / "faults.js").read_text()


class Browser:
    """A browser that shows a page on a screen or on paper, light or dark, and evaluates what is asked."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        self.count = 0
        self.process = subprocess.Popen(
            [
                "sh", "-c", 'exec "$@" 3<&0 4>&1 1>/dev/null', "-", CHROMIUM, *QUIET,
                f"--user-data-dir={profile}", "--remote-debugging-pipe",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.session: dict[str, str] = {}
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = {
            "sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        }
        self.ask("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)

    def hear(self) -> Any:
        told = bytearray()
        while (byte := self.process.stdout.read(1)) not in (b"\0", b""):  # type: ignore[union-attr]
            told += byte
        return json.loads(told)

    def ask(self, method: str, **given: Any) -> Any:
        self.count += 1
        said = {"id": self.count, "method": method, "params": given, **self.session}
        self.process.stdin.write(json.dumps(said).encode() + b"\0")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        while (told := self.hear()).get("id") != self.count:
            pass
        return told["result"]

    def show(self, url: str, width: int, *, dark: bool = False, paper: bool = False) -> None:
        colors = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=[colors])
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False
        )
        self.ask("Page.navigate", url=url)
        while self.hear().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script: str) -> Any:
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")
