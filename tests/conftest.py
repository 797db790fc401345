"""Shared settings: the same examples on every machine, and no deadline on a shared one."""

import os

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
os.environ.setdefault("NO_COLOR", "1")
settings.register_profile("unfit", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("unfit")
