"""Pages of the documentation site that are written elsewhere; a hook of mkdocs (see mkdocs.yml).

README, CONTRIBUTING, CHANGELOG and SECURITY stand in the repository's root, where people look for
them; the gallery is the scripts in examples/, with what each printed and drew when
tools/write_gallery.py ran it. Links between root and docs/ are rewritten, so that they work on the
site and in the repository.
"""

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
MOVED = PAGES | {"examples": "gallery.md", "LICENSE": "index.md"}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def from_root(text: str) -> str:
    """A document of the root as a page of the site: docs/guide.md is guide.md there."""
    return LINK.sub(lambda link: MOVED.get(link[1], link[1].removeprefix("docs/")), text)


def from_docs(text: str) -> str:
    """A page of docs/: ../README.md is index.md on the site."""

    def moved(link: re.Match[str]) -> str:
        return MOVED.get(link[1].removeprefix("../"), link[1])

    return LINK.sub(moved, text)


def gallery(root: Path = ROOT) -> str:
    """The examples in the order of their names, each with its text, code, output and picture."""
    parts = [
        "# Gallery\n",
        "Short programs that run as they stand: `python examples/NAME.py`. Each takes a few "
        "seconds, and the tests run all of them. What is printed and drawn below was written by "
        "`python tools/write_gallery.py`.\n",
    ]
    for script in sorted((root / "examples").glob("*.py")):
        code = script.read_text()
        module = ast.parse(code)
        said = ast.get_docstring(module) or ""
        title, _, text = said.partition("\n\n")
        body = "\n".join(code.splitlines()[module.body[0].end_lineno :]).strip()
        output = (root / "docs" / "gallery" / f"{script.stem}.txt").read_text()
        parts.append(
            f"## {title.rstrip('.')}\n\n{text}\n\n![{title}](gallery/{script.stem}.svg)\n\n"
            f'```python title="examples/{script.name}"\n{body}\n```\n\n```text\n{output}```\n'
        )
    return "\n".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        content = from_root((ROOT / source).read_text())
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "gallery.md", content=gallery()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return from_docs(markdown)
