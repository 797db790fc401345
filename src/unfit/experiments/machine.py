"""What measured times depend on: the machine, its versions, and how busy it is."""

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from unfit.core.kernels.parallel import available_threads

PACKAGES = ("unfit", "numpy", "scipy", "numba", "scikit-learn", "torch")


def machine() -> dict[str, object]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "processor": processor(),
        "cores": available_threads(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load": os.getloadavg()[0],
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions,
    }


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0].split(":", 1)[1].strip()
    return platform.processor()
