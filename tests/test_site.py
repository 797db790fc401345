"""The documentation site builds strictly and is read without a network; every example runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import site_pages  # noqa: E402
import write_gallery  # noqa: E402

# What a browser loads by itself, unlike a link that somebody follows.
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?![^>]*\brel=[\"']?canonical)[^>]*\bhref=[\"']?(https?:)?//"
    r"|\burl\([\"']?(https?:)?//",
    re.I,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 12
    for page in pages:
        found = LOADED.search(page.read_text())
        assert found is None, f"{page.relative_to(site)}: {found and found[0]}"


@pytest.mark.slow
def test_every_document_has_a_page_and_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    names = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"gallery", "contributing"}
    for name in sorted(names):
        assert (site / f"{name}.html").exists()
        assert f'href="{name}.html' in home, f"{name} is not in the navigation"


@pytest.mark.slow
def test_the_reference_names_what_the_package_offers(site: Path) -> None:
    import unfit

    text = (site / "reference.html").read_text()
    for name in unfit.__all__:
        if name != "__version__" and not name.endswith("Warning"):
            assert f">{name}<" in text or f"{name}</" in text, name


def test_what_a_page_may_load() -> None:
    assert LOADED.search('<script src="https://unpkg.com/x.js">')
    assert LOADED.search("<link href=//fonts.example/css rel=stylesheet>")
    assert LOADED.search("@font-face{src:url(https://fonts.example/a.woff2)}")
    assert not LOADED.search('<script src="assets/x.js"></script><a href="https://a.example">')


def test_links_between_the_root_and_the_documents_work_on_the_site() -> None:
    text = "[a](docs/guide.md#forget) ![b](docs/demo.png) [c](CONTRIBUTING.md) [d](https://x/docs/)"
    assert site_pages.from_root(text) == (
        "[a](guide.md#forget) ![b](demo.png) [c](contributing.md) [d](https://x/docs/)"
    )
    assert (
        site_pages.from_docs("[a](../README.md#x) [b](guide.md)") == "[a](index.md#x) [b](guide.md)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", write_gallery.names())
def test_every_example_runs_and_draws(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    printed = write_gallery.run(name, picture)
    assert picture.read_text().startswith("<?xml")
    kept = (write_gallery.GALLERY / f"{name}.txt").read_text()
    assert without_numbers(printed) == without_numbers(kept), "run tools/write_gallery.py"


def without_numbers(text: str) -> str:
    """Numbers may differ from machine to machine, words may not."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,e+-]*", "#", text))


@pytest.mark.parametrize("name", write_gallery.names())
def test_every_example_has_its_picture(name: str) -> None:
    picture = write_gallery.GALLERY / f"{name}.svg"
    assert picture.exists(), "run tools/write_gallery.py"
    assert picture.stat().st_size < 100_000
