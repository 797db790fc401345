"""Small plots as inline SVG, drawn by hand so that a page needs nothing else.

Colours are CSS variables of the page; every mark has a title for those who hover or listen.
"""

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 640, 58, 18, 14, 34


def _nice(top: float) -> float:
    """The next round number, for an axis."""
    if top <= 0:
        return 1.0
    power = 10.0 ** int(f"{top:e}".split("e")[1])
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= top * 0.999)


def line_chart(
    points: Sequence[tuple[str, float | None, bool]],
    *,
    threshold: float | None = None,
    unit: str = "",
    base: float = 0.0,
    top: float | None = None,
    label: str = "",
) -> str:
    """A line over points (name, value, marked); a dashed threshold, diamonds for the marked."""
    height = 220
    values = [v for _, v, _ in points if v is not None]
    if not values:
        return ""
    ceiling = top if top is not None else _nice(max([*values, *([threshold] if threshold else [])]))
    span = (ceiling - base) or 1.0
    steps = 4 if f"{span:e}".startswith("2.0") else 5

    def x(i: int) -> float:
        room = WIDTH - LEFT - RIGHT
        return LEFT + room * (0.5 if len(points) == 1 else i / (len(points) - 1))

    def y(v: float) -> float:
        return TOP + (height - TOP - BOTTOM) * (1 - (v - base) / span)

    parts = [frame(height, label)]
    for i in range(steps + 1):
        v = base + span * i / steps
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">'
            f"{v:.4g}{unit}</text>"
        )
    if threshold is not None and threshold <= ceiling:
        parts.append(
            f'<line class="threshold" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(threshold):.1f}" '
            f'y2="{y(threshold):.1f}"/>'
        )
    known = [(i, v) for i, (_, v, _) in enumerate(points) if v is not None]
    path = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in known)
    parts.append(f'<polyline class="line" points="{path}"/>')
    step = max(1, len(points) // 8)
    for i, (name, value, marked) in enumerate(points):
        if value is not None:
            at = (x(i), y(value))
            title = f"<title>{escape(name)}: {value:.4g}{unit}</title>"
            if marked:
                corners = ((0, -6), (6, 0), (0, 6), (-6, 0))
                drawn = " ".join(f"{at[0] + a:.1f},{at[1] + b:.1f}" for a, b in corners)
                parts.append(f'<polygon class="marked" points="{drawn}">{title}</polygon>')
            else:
                dot = f'<circle class="dot" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3">'
                parts.append(f"{dot}{title}</circle>")
        if i % step == 0:
            parts.append(
                f'<text class="tick" x="{x(i):.1f}" y="{height - 12}" text-anchor="middle">'
                f"{escape(name)}</text>"
            )
    return "".join(parts) + "</svg>"


def bar_chart(
    groups: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    *,
    unit: str = "",
    label: str = "",
    threshold: float | None = None,
    top: float | None = None,
) -> str:
    """Horizontal bars in groups (name, [(series, value)]); series take the page's colours."""
    bar, gap, left = 18, 16, 170
    count = sum(len(series) for _, series in groups)
    height = TOP + count * (bar + 4) + len(groups) * gap + BOTTOM
    values = [v for _, series in groups for _, v in series]
    ceiling = top if top is not None else _nice(max([*values, threshold or 0.0, 1e-12]))

    def x(v: float) -> float:
        return left + (WIDTH - left - 130) * min(1.0, v / ceiling)

    parts, y = [frame(height, label)], float(TOP)
    for name, series in groups:
        middle = y + len(series) * (bar + 4) / 2
        parts.append(
            f'<text class="name" x="{left - 10}" y="{middle + 3:.1f}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
        for j, (who, v) in enumerate(series):
            parts.append(
                f'<rect class="bar{j}" x="{left}" y="{y:.1f}" height="{bar}" rx="2" '
                f'width="{max(1.5, x(v) - left):.1f}"><title>{escape(who)}: {v:.4g}{unit}</title>'
                f'</rect><text class="value" x="{x(v) + 6:.1f}" y="{y + bar - 5:.1f}">'
                f"{escape(who)} {v:.4g}{unit}</text>"
            )
            y += bar + 4
        y += gap
    if threshold is not None:
        parts.append(
            f'<line class="threshold" x1="{x(threshold):.1f}" x2="{x(threshold):.1f}" y1="{TOP}" '
            f'y2="{height - BOTTOM + 8}"/><text class="tick" x="{x(threshold):.1f}" '
            f'y="{height - 10}" text-anchor="middle">threshold {threshold:g}{unit}</text>'
        )
    return "".join(parts) + "</svg>"


def frame(height: float, label: str) -> str:
    """The opening tag of a plot; `</svg>` closes it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">'
    )
