"""Writes the table of docs/api.md from the routes themselves: `python tools/write_api.py`."""

import sys
from pathlib import Path

from unfit.service.app import bare_app, guarded_routes
from unfit.service.auth import PUBLIC

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
BEGIN, END = "<!-- routes: written by tools/write_api.py -->", "<!-- end of routes -->"


def table() -> str:
    """One line a route of the API."""
    app = bare_app()
    paths = app.openapi()["paths"]
    lines = ["| | route | roles | |", "|---|---|---|---|"]
    for route in guarded_routes(app):
        for method in sorted(route.methods or ()):
            operation = paths.get(route.path_format, {}).get(method.lower())
            if operation is None:
                continue
            said = operation.get("description", "").replace("\n", " ").strip()
            roles = "everybody" if route.rule == {PUBLIC} else ", ".join(sorted(route.rule))
            title = operation["summary"]
            what = f"{title}{'' if title.endswith('?') else '.'} {said}".strip()
            lines.append(f"| `{method}` | `{route.path_format}` | {roles} | {what} |")
    return "\n".join(lines)


def rewritten(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    made = rewritten(PAGE.read_text())
    if "--check" in sys.argv and made != PAGE.read_text():
        sys.exit("docs/api.md is not what the routes say; run tools/write_api.py")
    PAGE.write_text(made)
