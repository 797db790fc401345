"""The study of tools/attack_study.py in small: what is wrong is refuted, what is right is not."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import attack_study  # noqa: E402

from unfit.certify.shadow_models import Size  # noqa: E402


def test_each_product_is_judged_as_it_deserves() -> None:
    counts = attack_study.run(attack_study.made_up, 3, Size(splits=32, targets=2))
    assert counts["certified"]["not refuted"] == 3
    assert counts["never unlearned"]["refuted"] == counts["half the noise"]["refuted"] == 3
    assert counts["never unlearned"]["shadow models"] == 3
    assert counts["half the noise"]["release test"] == 3
    table = attack_study.printed(counts, 3)
    assert "| certified | 3 | 0 | 3 | 0 | 0 | 0 |" in table
    assert "cores; Python" in attack_study.machine()
