"""docs/certificates.md: its example is run, and prints what stands there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are not installed")
def test_the_example_prints_what_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, "certificates.md", "exec"), {})
    printed = capsys.readouterr().out
    number = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?")
    assert number.sub("#", printed) == number.sub("#", shown)
    for one, other in zip(number.findall(printed), number.findall(shown), strict=True):
        found, expected = (float(text.replace(",", "")) for text in (one, other))
        assert found == pytest.approx(expected, rel=0.02)
