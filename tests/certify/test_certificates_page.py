"""docs/certificates.md: its example is run, and prints what stands there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are not installed")
def test_the_example_prints_what_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    codes = re.findall(r"```python\n(.*?)```", text, re.S)
    shown = re.findall(r"```text\n(.*?)```", text, re.S)
    names: dict[str, object] = {}
    number = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?")
    for by_chance, code, expected in zip((False, True), codes, shown, strict=True):
        exec(compile(code, "certificates.md", "exec"), names)
        printed = capsys.readouterr().out
        assert number.sub("#", printed) == number.sub("#", expected)
        figures = zip(number.findall(printed), number.findall(expected), strict=True)
        for one, other in figures if not by_chance else ():
            found, stands = (float(text.replace(",", "")) for text in (one, other))
            assert found == pytest.approx(stands, rel=0.02)
