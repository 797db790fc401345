"""The way of an erasure through the code: few files, and one direction."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import draw_erasure as drawing  # noqa: E402  # it lies in tools/

MOST_FILES = 30
HOOKS = {
    ("core/factors.py", "methods/onestep.py"),  # the product with the matrix to be solved
    ("core/kernels/parallel.py", "core/objective.py"),  # what each thread does
    ("disk.py", "workspace/lock.py"),  # may this process still change files?
    ("store/database.py", "workspace/deletion_list.py"),  # the key of the digests
}


@pytest.fixture(scope="module")
def trace() -> drawing.Trace:
    return drawing.trace_erasure()


def test_an_erasure_passes_few_files(trace: drawing.Trace) -> None:
    assert len(trace.way) <= MOST_FILES, trace.way
    assert {drawing.room_of(file) for file in trace.way} == set(drawing.DOWN)


def test_calls_go_down_or_aside_and_come_up_through_known_hooks_alone(
    trace: drawing.Trace,
) -> None:
    found = {(caller, hook.partition(":")[0]) for caller, hook in trace.hooks}
    assert found <= HOOKS


def test_each_room_is_entered_only_from_rooms_above_or_beside_it() -> None:
    assert drawing.may_call("workspace", "core")
    assert drawing.may_call("workspace", "store")
    assert drawing.may_call("data", "core")
    assert not drawing.may_call("core", "engines")
    assert not drawing.may_call("store", "workspace")
    assert not drawing.may_call("lifecycle", "store")


def test_the_document_names_the_files_that_the_code_passes(trace: drawing.Trace) -> None:
    remedy = "run tools/draw_erasure.py"
    assert drawing.files_listed(drawing.PAGE.read_text()) == set(trace.files), remedy
    names = {file.partition("/")[2] or file for file in trace.files}
    assert set(re.findall(r">([\w/]+\.py)<", drawing.PICTURE.read_text())) == names, remedy
