"""Models and statistics as files under their SHA-256: safetensors for arrays, JSON for cards.

A file is read only if its name is the hash of its content, so what was damaged or swapped is never
loaded; sizes and shapes are checked by the reader before arrays are made. Knows nothing of models.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unfit import disk
from unfit.errors import Damaged


class Artifacts:
    """A folder of files named by their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put_arrays(self, arrays: Mapping[str, np.ndarray]) -> str:
        from safetensors.numpy import save

        plain = {name: np.asarray(array, order="C") for name, array in sorted(arrays.items())}
        return self._put(save(plain), ".safetensors")

    def put_json(self, content: Mapping[str, Any]) -> str:
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1)
        return self._put(text.encode(), ".json")

    def arrays(self, sha: str) -> dict[str, np.ndarray]:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            return load(self._get(sha, ".safetensors"))
        except (SafetensorError, ValueError, KeyError) as error:
            if isinstance(error, Damaged):
                raise
            raise Damaged(f"artifact {sha[:12]} is not a safetensors file") from None

    def json(self, sha: str) -> dict[str, Any]:
        try:
            content = json.loads(self._get(sha, ".json"))
        except json.JSONDecodeError:
            raise Damaged(f"artifact {sha[:12]} is not JSON") from None
        return dict(content)

    def keep(self, shas: set[str]) -> bool:
        """Remove every file but these; whether there were any. Whoever calls syncs the folder."""
        names = {sha + suffix for sha in shas for suffix in (".safetensors", ".json")}
        return bool(disk.purge_folder(self.folder, names, sync=False))

    def _put(self, content: bytes, suffix: str) -> str:
        disk.private_folder(self.folder)
        sha = hashlib.sha256(content).hexdigest()
        disk.write_hashed(self.folder / f"{sha}{suffix}", content)
        return sha

    def _get(self, sha: str, suffix: str) -> bytes:
        path = self.folder / f"{sha}{suffix}"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise Damaged(f"{path.parent.name}/{path.name} is missing") from None
        if hashlib.sha256(content).hexdigest() != sha:
            raise Damaged(
                f"{path.parent.name}/{path.name} is not what unfit wrote; restore it from a backup"
            )
        return content
