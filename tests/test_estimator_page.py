"""docs/estimator.md: its blocks run, one after another, and its figures are so."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "estimator.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documents are not installed")


def test_the_blocks_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert blocks
    exec("\n".join(blocks), {})
    assert "forgotten" in capsys.readouterr().out
