"""Small JSON files that carry a checksum of their content, so that damage is noticed."""

import hashlib
import json
from pathlib import Path
from typing import Any

from unfit import disk
from unfit.errors import Damaged


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def write_checked(path: Path, content: dict[str, Any]) -> None:
    checksum = hashlib.sha256(_canonical(content)).hexdigest()
    disk.write(path, _canonical({"content": content, "sha256": checksum}))


def read_checked(path: Path) -> dict[str, Any]:
    where = f"{path.parent.name}/{path.name}"
    try:
        whole = json.loads(path.read_bytes())
        content, checksum = whole["content"], whole["sha256"]
    except OSError:
        raise Damaged(f"{where} is missing or cannot be read") from None
    except (ValueError, KeyError, TypeError):
        raise Damaged(f"{where} is not what unfit wrote; restore it from a backup") from None
    if hashlib.sha256(_canonical(content)).hexdigest() != checksum:
        raise Damaged(f"{where} is not what unfit wrote; restore it from a backup")
    return dict(content)
