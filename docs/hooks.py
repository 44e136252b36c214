"""The site is the repository's own pages, where they stand, so nothing is written twice.

MkDocs reads one folder.  Here the pages beside the code join those of `docs/`, each under its path in the
repository; other files that they link to come along; formulas become MathML, which browsers draw without a
script.
"""

import html
import os
import re
from functools import partial
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
BESIDE = (
    "README.md",
    "CHANGELOG.md",
    "paper.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "secfc/**/*.md",
    "psu/**/*.md",
    "benchmarks/*.md",
)
# What stands on another page, and the line for readers of this file, which is its link.
SECTION = re.compile(r"^<!-- section: (\S+)#(\S+) -->\n+[^\n]*\n", re.MULTILINE)
FETCHED = re.compile(r'<(?:script|img|iframe|link|source)\b[^>]*\b(?:src|href)="(?:https?:)?//[^>]*>')
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """All pages and pictures, by their paths from the root of the repository."""
    mounted = Files([])

    def add(path):
        uri = path.relative_to(ROOT).as_posix()
        if mounted.get_file_from_path(uri) is None:
            mounted.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))

    for file in files:
        inside = file.abs_src_path and Path(file.abs_src_path).resolve().is_relative_to(ROOT / "docs")
        if not inside:  # of the theme
            mounted.append(file)
        elif Path(file.src_uri).suffix in (".md", ".svg", ".css"):
            add(Path(file.abs_src_path).resolve())
    for pattern in BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            add(path)
    for page in list(mounted.documentation_pages()):
        for target in re.findall(r"\]\(([^)\s#]+)", page.content_string):
            path = (ROOT / page.src_uri).parent / target
            if "://" not in target and path.is_file() and path.suffix != ".md":
                add(path.resolve())
    return mounted


def on_page_markdown(markdown, page, config, files):
    """Sections that stand on another page come in; and what GitHub reads and Python-Markdown does not is
    helped: a table or list right below a line of text or a comment.  Terms of the glossary become anchors."""
    if page.file.src_uri == "docs/glossary.md":
        markdown = link_terms(markdown)
    return outside_code(SECTION.sub(lambda found: section(found[1], found[2], page), markdown), loosened)


def link_terms(text):
    """Bold words as anchors: **Any client** is found at #any-client."""

    def anchor(found):
        name = re.sub(r"\W+", "-", found[1].lower()).strip("-")
        return f'<strong id="{name}">{found[1]}</strong>'

    return re.sub(r"\*\*([^*]+)\*\*", anchor, text)


def section(name, anchor, page):
    """The text below a heading of another page, without deeper headings, its links from here."""
    text = (ROOT / name).read_text()
    for head in re.finditer(r"^(#+) (.*)$", text, re.MULTILINE):
        if re.sub(r"[^\w -]", "", head[2].lower()).replace(" ", "-") == anchor:
            end = re.compile(rf"^#{{1,{len(head[1])}}} ", re.MULTILINE).search(text, head.end())
            body = text[head.end() : end.start() if end else None].strip()
            return re.sub(r"\]\((?!https?:)([^)\s]+)\)", partial(moved, name, page.file.src_uri), body)
    raise ValueError(f"{page.file.src_uri}: {name} has no section #{anchor}")


def moved(name, here, link):
    """A link of one page as another has it."""
    path, mark, anchor = link[1].partition("#")
    target = (ROOT / name).parent / path if path else ROOT / name
    return f"]({Path(os.path.relpath(target, (ROOT / here).parent)).as_posix()}{mark}{anchor})"


def outside_code(text, change):
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def loosened(text):
    text = re.sub(r"^(<!--.*?-->)$", r"\n\1\n", text, flags=re.MULTILINE)
    text = re.sub(
        r"^(?!\s*(?:[-*|>#]|\d+\. )|\s)(.+)\n(?=(?:[-*]|\d+\.) )", r"\1\n\n", text, flags=re.MULTILINE
    )
    # Two or three spaces carry on a list on GitHub, four in Python-Markdown.
    return re.sub(r"^ {2,3}(?=\S)", "    ", text, flags=re.MULTILINE)


def on_post_page(output, page, config):
    """Whatever a browser would fetch from elsewhere is an error of the build."""
    found = FETCHED.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} fetches from elsewhere: {found[0]}")


def on_page_content(content, page, config, files):
    """TeX becomes MathML; what cannot be read is an error of the build."""

    def drawn(found):
        tex = html.unescape(found[2])
        return convert(tex[2:-2].strip(), display="block" if found[1] == "div" else "inline")

    content = re.sub(r'<(div|span) class="arithmatex">(.*?)</\1>', drawn, content, flags=re.DOTALL)
    return re.sub(
        r"<table>(.*?)</table>", r'<div class="wide"><table>\1</table></div>', content, flags=re.DOTALL
    )
