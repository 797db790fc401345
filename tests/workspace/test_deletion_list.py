"""The deletion list, line by line: shared, torn, cut, edited, emptied, removed, of before."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner
from workspaces import Kept, as_before, make, remembers

from unfit import points
from unfit.cli import app
from unfit.errors import BadInput, Damaged, Unavailable, UnfitError
from unfit.workspace import Workspace, init, list_format
from unfit.workspace.deletion_list import DeletionList
from unfit.workspace.list_format import Head, Position, Relation

ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["subject", "row", "workspace"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    max_size=8,
)
HEAD = Head("a" * 32).line()
VERSION = 3  # of `one`: one of the three is held out, and no version was made for them


class Crash(BaseException):
    """A process that ends here, as far as the workspace can tell."""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A workspace that has forgotten three people."""
    kept = make(tmp_path_factory.mktemp("listed") / "w", None)
    with kept.open() as ws:
        for person in ("p0001", "p0002", "p0003"):
            ws.forget(subjects=[person])
    return kept


@pytest.fixture
def kept(one: Kept, tmp_path: Path) -> Kept:
    return one.copy(tmp_path / "own")


def list_of(kept: Kept) -> Path:
    return kept.folder.parent / "ws.forgotten"


def sharing(folder: Path) -> tuple[Kept, Kept]:
    """Two workspaces with one list."""

    def edit(text: str) -> str:
        return text.replace('"../ws.forgotten"', '"../../all.forgotten"')

    return make(folder / "one", None, edit=edit), make(folder / "two", None, edit=edit)


# --- lines ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(first=ENTRIES, then=ENTRIES, torn=st.binary(max_size=20))
def test_lines_are_read_as_they_were_written_and_a_torn_one_is_none(
    first: list[tuple[str, str]], then: list[tuple[str, str]], torn: bytes
) -> None:
    lines = HEAD + list_format.write(HEAD, first)
    known = list_format.position_of(lines, "l")
    more = lines + list_format.write(lines, then)
    tail = torn.replace(b"\n", b"")
    assert list_format.whole(more + tail) == more
    assert list_format.read(more, "l").entries == [*first, *then]
    assert list_format.read(more, "l", len(lines)).entries == then
    expected = Relation.LONGER if then else Relation.SAME
    assert list_format.relation(more, known, "l") is expected


@settings(deadline=None)
@given(entries=ENTRIES.filter(bool), data=st.data())
def test_any_line_that_is_gone_or_changed_is_noticed(
    entries: list[tuple[str, str]], data: st.DataObject
) -> None:
    lines = HEAD + list_format.write(HEAD, entries)
    known = list_format.position_of(lines, "l")
    parts = [part + b"\n" for part in lines.split(b"\n")[:-1]]
    at = data.draw(st.integers(1, len(parts) - 1))
    cut = b"".join(parts[:at])
    assert list_format.relation(cut, known, "l") is Relation.CUT
    without = b"".join(parts[:at] + parts[at + 1 :])
    assert list_format.relation(without, known, "l") is Relation.CUT
    if at < len(parts) - 1:  # also to who knows nothing of it yet
        with pytest.raises(Damaged, match="does not follow"):
            list_format.read(without, "l")
    place = data.draw(st.integers(len(HEAD), len(lines) - 2))
    other = bytes([lines[place] ^ 1])
    if other != b"\n":
        edited = lines[:place] + other + lines[place + 1 :]
        assert list_format.relation(edited, known, "l") is not Relation.SAME


def test_who_appends_behind_others_knows_no_more_than_before(tmp_path: Path) -> None:
    mine, theirs = DeletionList(tmp_path / "list"), DeletionList(tmp_path / "list")
    mine.begin()
    known = mine.read().position
    assert known is not None
    after = theirs.append([("subject", "x")], known)
    assert after.lines == known.lines + 1
    assert mine.append([("subject", "y")], known) == known  # x is not applied here
    assert not mine.check(known)
    assert mine.read_after(known).ids == [("subject", "x"), ("subject", "y")]
    end = mine.read().position
    assert end is not None
    assert mine.check(end)
    assert mine.append([("subject", "z")], end).lines == end.lines + 1


def test_an_edit_is_seen_though_length_and_time_are_as_before(tmp_path: Path) -> None:
    listed = DeletionList(tmp_path / "list")
    listed.begin()
    start = listed.read().position
    assert start is not None
    known = listed.append([("subject", "anna")], start)
    os.utime(listed.path, ns=(10**18, 10**18))
    while not listed.agrees(known):  # times have settled, so that one look is enough
        assert listed.check(known)
    before = listed.path.stat()
    listed.path.write_bytes(listed.path.read_bytes().replace(b"anna", b"bert"))
    os.utime(listed.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = listed.path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert not listed.agrees(known)
    with pytest.raises(Unavailable, match="was edited"):
        listed.check(known)


# --- two workspaces ------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", [True, False])
def test_a_line_that_another_workspace_adds_at_the_worst_moment_is_not_passed_over(
    dies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = sharing(tmp_path)
    with one.open() as a, two.open() as b:

        def interfere(point: str) -> None:
            if point == "forget.unlearned":  # the first has read the list, and not yet written it
                monkeypatch.setattr(points, "observer", None)
                b.forget(subjects=["p0004"])
                monkeypatch.setattr(points, "observer", die if dies else None)

        def die(point: str) -> None:
            if point == "forget.committed":
                monkeypatch.setattr(points, "observer", None)
                raise Crash

        a.forget(subjects=["p0001"])
        monkeypatch.setattr(points, "observer", interfere)
        if dies:
            with pytest.raises(Crash):
                a.forget(subjects=["p0003"])
        else:
            a.forget(subjects=["p0003"])
    with one.open() as a, two.open() as b:
        for ws in (a, b):
            ws.active_model()
        assert not any(remembers(ws, p) for ws in (a, b) for p in ("p0001", "p0003", "p0004"))
        a.active_model()  # what the second has added in catching up
        assert a.caught_up()
        assert b.caught_up()


def test_who_is_listed_while_a_first_model_is_trained_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = sharing(tmp_path)
    shutil.rmtree(two.folder / "data")
    (two.folder / "unfit.db").unlink()
    (two.folder / "unfit.trained").unlink()
    with one.open() as a, two.open() as b:

        def interfere(point: str) -> None:
            if point == "train.trained":
                monkeypatch.setattr(points, "observer", None)
                a.forget(subjects=["p0004"])

        monkeypatch.setattr(points, "observer", interfere)
        b.train()
        assert not remembers(b, "p0004")
        assert b.caught_up()


# --- what may happen to it -----------------------------------------------------------------------


def test_a_torn_last_line_stops_nothing_and_loses_nobody(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(point: str) -> None:
        if point == "list.half-written":
            raise Crash

    with kept.open() as ws:
        ws.active_model()
        monkeypatch.setattr(points, "observer", die)
        with pytest.raises(Crash):
            ws.forget(subjects=["p0007"])
        monkeypatch.setattr(points, "observer", None)
        assert not list_of(kept).read_bytes().endswith(b"\n")
        assert ws.active_model().version == VERSION
    with kept.open() as ws:
        assert ws.active_model().version == VERSION
        ws.apply()  # it was accepted, and waits
        assert not remembers(ws, "p0007")
        assert ws.caught_up()
    assert '"p0007"' in list_of(kept).read_text()


def cut(listed: Path) -> None:
    listed.write_bytes(b"".join(listed.read_bytes().splitlines(keepends=True)[:-1]))


def edit(listed: Path) -> None:
    before = listed.stat()
    listed.write_bytes(listed.read_bytes().replace(b"p0002", b"p0009"))
    os.utime(listed, ns=(before.st_atime_ns, before.st_mtime_ns))


def empty(listed: Path) -> None:
    listed.write_bytes(b"")


HARMS = [(cut, "was cut"), (edit, "was edited"), (empty, "is empty"), (Path.unlink, "is gone")]


@pytest.mark.parametrize(("harm", "said"), HARMS)
def test_a_list_that_is_not_whole_is_refused_until_it_is_put_back(
    harm: Callable[[Path], None], said: str, kept: Kept
) -> None:
    listed, copy = list_of(kept), list_of(kept).with_suffix(".copy")
    shutil.copy(listed, copy)
    with kept.open() as running:
        running.active_model()
        harm(listed)
        for ws in (running, kept.open()):
            for verb in (ws.active_model, lambda ws=ws: ws.forget(subjects=["p0005"]), ws.audit):
                with pytest.raises(Unavailable, match=f"{said}.*newest copy.*accept-loss"):
                    verb()
            assert not ws.caught_up()
            assert ws.status().list_differs
        ws.close()
        shutil.copy(copy, listed)
        assert running.active_model().version == VERSION
        assert running.forget(subjects=["p0005"]).rows > 0


def test_lines_edited_that_a_backup_has_not_read_are_noticed_too(kept: Kept) -> None:
    backup = kept.folder.parent / "backup"
    shutil.copytree(kept.folder, backup)
    with kept.open() as ws:
        ws.forget(subjects=["p0005"])
        ws.forget(subjects=["p0006"])
    shutil.rmtree(kept.folder)
    shutil.move(backup, kept.folder)
    listed = list_of(kept)
    listed.write_bytes(listed.read_bytes().replace(b"p0005", b"p0008"))
    with kept.open() as ws, pytest.raises(Damaged, match="does not follow"):
        ws.active_model()


# --- the key -------------------------------------------------------------------------------------


def test_a_lost_key_is_not_made_anew_in_silence(kept: Kept) -> None:
    key = list_of(kept).with_name("ws.forgotten.key")
    secret = key.read_text()
    key.unlink()
    with kept.open() as ws:
        for verb in (lambda: ws.forget(subjects=["p0001"]), ws.retrain):
            with pytest.raises(Unavailable, match="key.*is gone.*from the backup"):
                verb()
        with pytest.raises(Unavailable, match="is gone"):
            ws.submit(subjects=["p0001"])
    assert not key.exists()
    key.write_text("00" * 32)
    with kept.open() as ws:
        for verb in (ws.forget, ws.submit):
            with pytest.raises(Unavailable, match="is not the key"):
                verb(subjects=["p0001"])
    key.write_text("")
    with kept.open() as ws, pytest.raises(Damaged, match="does not hold a key"):
        ws.forget(subjects=["p0001"])
    key.write_text(secret)
    with kept.open() as ws:
        assert ws.forget(subjects=["p0001"]).repeated == ("p0001",)


def test_a_new_workspace_beside_a_list_needs_its_key_and_beside_a_key_its_list(
    kept: Kept, tmp_path: Path
) -> None:
    listed, key = list_of(kept), list_of(kept).with_name("ws.forgotten.key")
    shutil.rmtree(kept.folder)
    source = kept.folder.parent / "people.parquet"
    init(source, kept.folder, label="label", subject="person", row_id="record")
    secret, lines = key.read_text(), listed.read_bytes()
    for path, said in ((key, "key.*is gone"), (listed, "list.*is gone")):
        path.unlink()
        with kept.open() as ws, pytest.raises(Unavailable, match=said):
            ws.train()
        key.write_text(secret)
        listed.write_bytes(lines)
    listed.write_bytes(b"")
    with kept.open() as ws, pytest.raises(Unavailable, match="is empty"):
        ws.train()
    listed.write_bytes(lines)
    with kept.open() as ws:
        assert ws.train().left_out > 0


# --- accepting a loss ----------------------------------------------------------------------------


@pytest.mark.parametrize(("harm", "said"), HARMS)
def test_a_loss_is_accepted_by_an_explicit_step_that_says_what_is_lost(
    harm: Callable[[Path], None], said: str, kept: Kept
) -> None:
    del said
    backup = kept.folder.parent / "backup"
    shutil.copytree(kept.folder, backup)
    harm(list_of(kept))
    run = CliRunner().invoke
    before = list_of(kept).read_bytes() if list_of(kept).exists() else None
    asked = run(app, ["accept-loss", "-w", str(kept.folder)])
    assert asked.exit_code == 0
    assert "nothing was changed" in asked.output
    assert "will not know of anybody who is not on the list" in asked.output
    assert before == (list_of(kept).read_bytes() if list_of(kept).exists() else None)
    done = run(app, ["accept-loss", "--yes", "-w", str(kept.folder)])
    assert done.exit_code == 0, done.output
    again = run(app, ["accept-loss", "--yes", "-w", str(kept.folder)])
    assert again.exit_code == 2
    assert "nothing is lost" in again.output
    with kept.open() as ws:
        assert ws.active_model().version >= VERSION
        assert ws.forget(subjects=["p0001"]).repeated == ("p0001",)
        ws.forget(subjects=["p0011"])
    shutil.rmtree(kept.folder)  # a backup of before the loss goes on with the new list
    shutil.move(backup, kept.folder)
    with kept.open() as ws:
        ws.active_model()
        assert not remembers(ws, "p0011")


def test_a_key_lost_for_good_is_made_anew_by_the_explicit_step(kept: Kept) -> None:
    key = list_of(kept).with_name("ws.forgotten.key")
    key.unlink()
    with kept.open() as ws:
        lost = ws.accept_loss(dry_run=True)
        assert lost is not None
        assert (lost.of_list, "is gone" in (lost.of_key or "")) == (None, True)
        assert not key.exists()
        assert "unknown from now on" in " ".join(ws.accept_loss().consequences)
        assert ws.forget(subjects=["p0001"]).unknown == ("p0001",)  # as was said
        assert ws.forget(subjects=["p0005"]).rows > 0
        with pytest.raises(BadInput, match="nothing is lost"):
            ws.accept_loss()


# --- lists of before -----------------------------------------------------------------------------


def test_a_list_of_an_earlier_release_is_brought_up_to_date(kept: Kept) -> None:
    as_before(kept)
    backup = kept.folder.parent / "backup"
    shutil.copytree(kept.folder, backup)
    with kept.open() as ws:
        assert ws.active_model().version == VERSION
        assert ws.caught_up()
        assert [value for _, value in ws.deletions.read().ids] == ["p0001", "p0002", "p0003"]
        assert ws.forget(subjects=["p0001"]).repeated == ("p0001",)
        ws.forget(subjects=["p0005"])
    shutil.rmtree(kept.folder)
    shutil.move(backup, kept.folder)  # its position is in bytes of the list of before
    with kept.open() as ws:
        ws.active_model()
        assert not remembers(ws, "p0005")


@pytest.mark.parametrize("harm", [cut, empty, Path.unlink])
def test_a_list_of_an_earlier_release_that_was_cut_is_refused(
    harm: Callable[[Path], None], kept: Kept
) -> None:
    as_before(kept)
    harm(list_of(kept))
    with kept.open() as ws, pytest.raises(UnfitError, match="cut|empty|gone"):
        ws.active_model()


def test_a_list_of_a_later_release_is_left_alone(kept: Kept) -> None:
    listed = list_of(kept)
    text = listed.read_text().replace('"format": 2', '"format": 3')
    listed.write_text(text)
    with kept.open() as ws, pytest.raises(Unavailable, match="newer unfit"):
        ws.active_model()
    assert listed.read_text() == text


def test_positions_are_kept_as_text() -> None:
    position = Position("id", 3, "digest")
    assert Position.parse(str(position)) == position
    assert Position.parse(None) is None


def test_workspaces_that_open_do_not_make_a_key(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, trained=False)
    with Workspace(kept.folder) as ws:
        ws.status()
    assert not list(kept.folder.parent.glob("ws.forgotten*"))
