"""tools/draw_engines.py: the picture of the three engines, and where the GPU's points come from."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import draw_engines


def test_the_points_of_the_gpu_are_those_of_its_page() -> None:
    page, found = draw_engines.GPU_PAGE.read_text(), draw_engines.of_gpu()
    for one in found:
        of_gradient, of_hessian = one["seconds"]["torch"].values()
        shown = f"| {1e3 * of_gradient:.3g} ms | {1e3 * of_hessian:.3g} ms |"
        assert f"| {one['n']:,} x {one['columns']:,} {shown}" in page
    shapes = {(one["n"], one["columns"]) for one in found}
    assert shapes >= {(n, draw_engines.COLUMNS) for n in draw_engines.SIZES}
    assert shapes >= {(draw_engines.ROWS, width) for width in draw_engines.WIDTHS}


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_passes_are_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(draw_engines, "SIZES", (2_000, 4_000))
    monkeypatch.setattr(draw_engines, "WIDTHS", (5, 10))
    monkeypatch.setattr(draw_engines, "ROWS", 3_000)
    monkeypatch.setattr(draw_engines, "HESSIANS_UP_TO", 5)
    found = draw_engines.measure()
    assert [(one["n"], one["columns"]) for one in found] == [
        (2_000, 50),
        (4_000, 50),
        (3_000, 5),
        (3_000, 10),
    ]
    assert all(one["seconds"].keys() == {"cpu", "dask"} for one in found)
    assert "hessian" not in found[-1]["seconds"]["cpu"]
    draw_engines.draw(found, tmp_path / "engines.png")
    assert (tmp_path / "engines.png").read_bytes().startswith(b"\x89PNG")
