"""Two plots of an attack as inline SVG: the scores of two kinds of releases, and their ROC."""

from collections.abc import Sequence

from unfit.pages.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, frame

_HEIGHT = 240
_SIDE = 330  # of the square that a ROC is drawn in


def histogram(
    edges: Sequence[float], series: Sequence[tuple[str, Sequence[float]]], *, unit: str, label: str
) -> str:
    """Shares per bin, one outline a series; what is beyond the ends is in the last bins."""
    top = max((v for _, shares in series for v in shares), default=0.0) or 1.0
    low, high = edges[0], edges[-1]

    def x(v: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (v - low) / (high - low)

    def y(v: float) -> float:
        return TOP + 20 + (_HEIGHT - TOP - 20 - BOTTOM) * (1 - v / top)

    parts = [frame(_HEIGHT, label)]
    for i in range(5):
        v = round((low + (high - low) * i / 4) / (high - low), 2) * (high - low)
        parts.append(
            f'<line class="grid" x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{y(top):.1f}" '
            f'y2="{y(0):.1f}"/><text class="tick" x="{x(v):.1f}" y="{_HEIGHT - 18}" '
            f'text-anchor="middle">{v:.2g}</text>'
        )
    parts.append(
        f'<text class="tick" x="{WIDTH / 2:.0f}" y="{_HEIGHT - 3}" text-anchor="middle">'
        f"{unit}</text>"
    )
    for i, (name, shares) in enumerate(series):
        points = [f"{x(edges[0]):.1f},{y(0):.1f}"]
        for a, b, share in zip(edges, edges[1:], shares, strict=False):
            points += [f"{x(a):.1f},{y(share):.1f}", f"{x(b):.1f},{y(share):.1f}"]
        points.append(f"{x(edges[-1]):.1f},{y(0):.1f}")
        parts.append(
            f'<polygon class="area{i}" points="{" ".join(points)}"><title>{name}</title></polygon>'
            f'<rect class="bar{i}" x="{LEFT + 170 * i}" y="{TOP - 6}" width="12" height="12"/>'
            f'<text class="name" x="{LEFT + 170 * i + 18}" y="{TOP + 4}">{name}</text>'
        )
    return "".join(parts) + "</svg>"


def roc(points: Sequence[tuple[float, float, float, float]], *, label: str) -> str:
    """TPR over FPR, points (FPR, lowest TPR, TPR, highest TPR), with the band between the bounds;
    the dashed diagonal is guessing."""
    height, left = TOP + _SIDE + BOTTOM + 12, (WIDTH - _SIDE) / 2

    def at(fpr: float, tpr: float) -> str:
        return f"{left + _SIDE * fpr:.1f},{TOP + _SIDE * (1 - tpr):.1f}"

    parts = [frame(height, label)]
    for i in range(6):
        v = i / 5
        x, y = at(v, v).split(",")
        parts.append(
            f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{TOP + _SIDE}"/>'
            f'<line class="grid" x1="{left:.1f}" x2="{left + _SIDE:.1f}" y1="{y}" y2="{y}"/>'
            f'<text class="tick" x="{x}" y="{TOP + _SIDE + 18}" text-anchor="middle">{v:g}</text>'
            f'<text class="tick" x="{left - 8:.1f}" y="{float(y) + 4:.1f}" text-anchor="end">'
            f"{v:g}</text>"
        )
    start, end = at(0, 0).split(","), at(1, 1).split(",")
    band = [at(f, low) for f, low, _, _ in points] + [at(f, high) for f, _, _, high in points][::-1]
    parts += [
        f'<line class="guess" x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}"/>',
        f'<polygon class="band" points="{" ".join(band)}"/>',
        f'<polyline class="line" points="{" ".join(at(f, t) for f, _, t, _ in points)}"/>',
        f'<text class="tick" x="{WIDTH / 2:.0f}" y="{height - 4}" text-anchor="middle">'
        "retrained models blamed (FPR)</text>",
        f'<text class="tick" x="{left - 40:.1f}" y="{TOP + _SIDE / 2:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 {left - 40:.1f} {TOP + _SIDE / 2:.0f})">'
        "unlearned models found (TPR)</text>",
    ]
    return "".join(parts) + "</svg>"
