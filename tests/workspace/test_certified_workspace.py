"""Certified workspaces: every version has its entry in the log, whatever it was made by."""

import hashlib
import json
import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from certified import (
    check_export,
    check_log,
    check_records,
    claims_of,
    edit,
    held_out_people,
    make_certified,
    opened,
    quick,
    secrets_of,
    trained_people,
)
from test_purge import _rows_in_tables, found
from workspaces import Kept, make

import people
import servers
from tiers import mostly_slow
from unfit.certify.keys import SigningKey
from unfit.certify.verify import commitment, parse_statement
from unfit.errors import BadInput, Unavailable
from unfit.methods import METHODS
from unfit.pages.certificate import certificate_page
from unfit.workspace import Workspace
from unfit.workspace.certificates import HandedOut, NoCertificate, Unsigned

DAMAGES = ("removed", "cut", "of another workspace")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make_certified(tmp_path_factory.mktemp("certified") / "w")


@pytest.fixture
def kept(original: Kept, tmp_path: Path) -> Kept:
    return original.copy(tmp_path / "own")


@pytest.mark.path
def test_every_version_has_its_certificate(database: servers.Server | None, tmp_path: Path) -> None:
    kept = make_certified(tmp_path / "w", database)
    with kept.open() as ws:
        assert [c.kind for c in ws.certificates.find()] == ["trained"]
        ws.forget(subjects=trained_people(ws)[:2], key="a")
        ws.forget(subjects=held_out_people(ws)[:1], key="b")
        check_export(ws)  # the weights are as they were, and the newest entry is about them
        ws.retrain()
        ws.forget(subjects=["nobody"], key="c")
        with pytest.raises(NoCertificate, match="'c' has no certificate: it is unmatched"):
            ws.certificates.of_request("c")
        with pytest.raises(BadInput, match="there is no erasure with the key 'd'"):
            ws.certificates.of_request("d")
        kinds = [c.kind for c in ws.certificates.find()]
        assert kinds == ["trained", "updated", "kept", "retrained"]
        assert ws.certificates.of_request("b").version == 2
        check_log(ws)
        check_export(ws)
        trained, updated, still, again = claims_of(ws)
        assert trained.mu_limit < updated.mu_limit / 60  # nearer to the optimum, and it says so
        assert again.mu_limit == trained.mu_limit
        assert (still.joint_mu, still.releases) == (updated.joint_mu, updated.releases)
        assert [c.deleted for c in (trained, updated, still, again)] == [0, *[updated.deleted] * 3]
        assert updated.deleted == ws.store.versions.find()[1].deleted > 0


def test_an_erasure_that_retrains_is_certified(kept: Kept) -> None:
    edit(kept, ("retrain_when = [", 'retrain_when = ["always"]  # ['))
    with kept.open() as ws:
        assert ws.forget(subjects=trained_people(ws)[:1], key="a").action == "retrain"
        assert [c.kind for c in ws.certificates.find()] == ["trained", "retrained"]
        check_log(ws)
        check_export(ws)
        assert len(claims_of(ws)[1].commitments) == 1


def test_a_model_that_is_withdrawn_has_an_entry_and_nothing_is_released(tmp_path: Path) -> None:
    table = people.people(n=120, subjects=60)
    kept = make_certified(tmp_path / "w", table=table)
    rows = table.to_pandas()
    with kept.open() as ws:
        ws.forget(subjects=sorted(set(rows.loc[rows["label"] == "yes", "person"])), key="a")
        assert ws.store.versions.active().kind == "withdrawn"
        ws.forget(subjects=sorted(set(rows["person"])), key="b")
        kinds = [c.kind for c in ws.certificates.find()]
        assert kinds == ["trained", "withdrawn", "kept"]
        check_log(ws)
        nothing = hashlib.sha256(b"").hexdigest()
        assert [c.sha256 for c in ws.certificates.find()][1:] == [nothing] * 2
        for one in ws.certificates.find()[1:]:
            page = certificate_page(one, (), ws.certificates.head())
            assert "so none is released any more" in page
            assert "indistinguishable" not in page
        with pytest.raises(Unavailable, match="withdrawn"):
            ws.export()


@pytest.mark.parametrize("method", mostly_slow(METHODS, ["fisher"]))
def test_every_method_is_certified(method: str, tmp_path: Path) -> None:
    kept = make_certified(tmp_path / "w", method=method, edit=quick)
    with kept.open() as ws:
        for person in trained_people(ws)[:2]:
            ws.forget(subjects=[person])
        check_log(ws)
        check_export(ws)


def test_several_classes_are_one_claim(tmp_path: Path) -> None:
    kept = make_certified(tmp_path / "w", table=people.people(n=600, classes=4))
    with kept.open() as ws:
        ws.forget(subjects=trained_people(ws)[:3])
        check_log(ws)
        check_export(ws)
        assert claims_of(ws)[-1].problems == 4


# --- what people get -----------------------------------------------------------------------------


def test_each_person_opens_one_commitment_and_nobody_else_s(kept: Kept) -> None:
    with kept.open() as ws:
        first, second, third = trained_people(ws)[:3]
        held = held_out_people(ws)[0]
        ws.submit(subjects=[first], key="a")
        ws.submit(subjects=[second, held, "nobody"], key="b")
        ws.submit(subjects=[first], key="again")  # named by the first one already
        ws.submit(subjects=[third], key="c")
        ws.apply()
        (_, claim) = claims_of(ws)
        assert len(claim.commitments) == 4
        named = {"a": [first], "b": [second, held], "c": [third]}
        everybody = [first, second, third, held]
        for key, ids in named.items():
            proof = ws.certificates.hand_out(key)
            assert len(proof.salts) == len(ids)
            for salt, committed in proof.salts:
                assert committed in claim.commitments
                opens = [
                    who
                    for who in everybody
                    if commitment(bytes.fromhex(salt), f"subject:{who}") == committed
                ]
                assert len(opens) == 1
                assert opens[0] in ids
                assert commitment(bytes.fromhex(salt), f"row:{opens[0]}") != committed
            with pytest.raises(HandedOut, match="handed out before"):
                ws.certificates.hand_out(key)
        with pytest.raises(NoCertificate, match="forgot nobody who was not forgotten before"):
            ws.certificates.of_request("again")
        assert {ws.certificates.of_request(key).number for key in named} == {1}


@pytest.mark.path
def test_of_two_who_ask_at_once_one_gets_the_proof(
    database: servers.Server | None, tmp_path: Path
) -> None:
    kept = make_certified(tmp_path / "w", database)
    with kept.open() as ws, kept.open() as other, ThreadPoolExecutor(1) as beside:
        ws.forget(subjects=trained_people(ws)[:1], key="a")
        with ws.certificates.handing_out("a") as proof:
            assert len(proof.salts) == 1
            waiting = beside.submit(other.certificates.hand_out, "a")
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
        with pytest.raises(HandedOut):
            waiting.result()


def test_a_proof_that_was_not_taken_stays(kept: Kept) -> None:
    with kept.open() as ws:
        ws.forget(subjects=trained_people(ws)[:1], key="a")
        with pytest.raises(OSError, match="disk"), ws.certificates.handing_out("a") as proof:
            raise OSError("the disk is full")
        assert ws.certificates.hand_out("a") == proof
        with pytest.raises(HandedOut):
            ws.certificates.hand_out("a")


@pytest.mark.path
def test_nothing_of_ids_and_salts_is_left(database: servers.Server | None, tmp_path: Path) -> None:
    """In no byte of the folder or the database: handed out, or out of time."""
    kept = make_certified(tmp_path / "w", database)
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    with Workspace(kept.folder, clock=lambda: moment) as ws:
        first, second = trained_people(ws)[:2]
        ws.forget(subjects=[first], key="a")
        ws.forget(subjects=[second], key="b")
        requests = {r.key: r for r in ws.store.requests.find()}
        wanted = {
            f"{kind} {key}": value
            for key, who in (("a", first), ("b", second))
            for (salt,) in [ws.store.certificates.salts(requests[key].id)]
            for kind, value in (
                ("salt", salt.salt.encode()),
                ("raw salt", bytes.fromhex(salt.salt)),
                ("id", who.encode()),
            )
        }
        ws.certificates.hand_out("a")
        ws.apply()
        assert not [name for name in found(kept.folder, wanted) if name != "salt b"]
        moment += timedelta(days=29)
        ws.apply()
        assert ws.certificates.can_hand_out(requests["b"])
        moment += timedelta(days=2)
        ws.apply()
        with pytest.raises(HandedOut, match="its time is over"):
            ws.certificates.hand_out("b")
        ws.apply()
        assert not ws.status().purge_due
        assert found(kept.folder, wanted) == {}
        check_log(ws)
    if kept.database is not None:
        assert _rows_in_tables(kept, wanted) == {}


def test_salts_expire_though_certificates_were_turned_off(kept: Kept) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    with Workspace(kept.folder, clock=lambda: moment) as ws:
        ws.forget(subjects=trained_people(ws)[:1], key="a")
    edit(kept, ("epsilon = 1.0", "# epsilon = 1.0"))
    later = moment + timedelta(days=31)
    with Workspace(kept.folder, clock=lambda: later) as ws:
        ws.apply()
        with pytest.raises(HandedOut):
            ws.certificates.hand_out("a")


# --- the signing key -----------------------------------------------------------------------------


def _damage(key: Path, how: str) -> None:
    if how == "removed":
        key.unlink()
    elif how == "cut":
        key.write_bytes(key.read_bytes()[:40])
    else:
        key.write_bytes(SigningKey.generate("unfit/other").pem())


PROBLEMS = {
    "removed": "the signing key signing.key is missing",
    "cut": "not a private key in PEM format, or it is cut short",
    "of another workspace": "signing.key is not the key this workspace signs with",
}


@pytest.mark.parametrize("back", ["with an erasure", "with a retraining", "by hand"])
@pytest.mark.parametrize("how", DAMAGES)
def test_forgetting_goes_on_without_the_key_and_it_signs_all_in_order_when_it_is_back(
    kept: Kept, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str, back: str
) -> None:
    key = kept.folder / "signing.key"
    aside = shutil.copy(key, tmp_path / "aside")
    with kept.open() as ws, caplog.at_level(logging.WARNING, "unfit"):
        everybody = trained_people(ws)
        ws.forget(subjects=everybody[:1], key="before")
        old = ws.certificates.head().checkpoint
        _damage(key, how)
        ws.forget(subjects=everybody[1:2], key="a")
        ws.forget(subjects=held_out_people(ws)[:1], key="b")
        ws.retrain()
        check_records(ws)
        assert [PROBLEMS[how] in line for line in caplog.messages] == [True]  # and not each time
        assert [c.signed for c in ws.certificates.find()] == [True, True, False, False, False]
        said = ws.status().certificates
        assert (said.entries, said.waiting) == (5, 3)
        assert PROBLEMS[how] in (said.problem or "")
        assert PROBLEMS[how] in str(said)
        with pytest.raises(Unsigned, match="certificate 2 waits for a signature"):
            ws.certificates.bundle(ws.certificates.of_request("a"))
        with pytest.raises(Unsigned, match="waits for a signature"):
            ws.certificates.hand_out("a")
        with pytest.raises(Unsigned, match="the annex cannot be sealed"):
            ws.certificates.bundle(ws.certificates.of_request("before"), annex=True)
        assert ws.certificates.bundle(ws.certificates.of_request("before"))
        assert ws.sign_certificates() == 0
        shutil.copy(aside, key)
        assert ws.status().certificates.problem == "the next erasure or `unfit key sign` signs them"
        if back == "by hand":
            assert ws.sign_certificates() == 3
        elif back == "with a retraining":
            ws.retrain()
        else:
            ws.forget(subjects=everybody[2:3])
        check_log(ws)
        assert ws.certificates.hand_out("a").salts
        grown = ws.certificates.growth_since(str(old))
        assert grown["size"] == 2


def test_a_new_key_signs_what_comes_and_the_old_one_counts_for_what_was(kept: Kept) -> None:
    with kept.open() as ws:
        everybody = trained_people(ws)
        ws.forget(subjects=everybody[:1])
        made = ws.rotate_key()
        ws.forget(subjects=everybody[1:2])
        assert [k.text for k in ws.certificates.public_keys()][1:] == [made.text]
        check_log(ws)
        (kept.folder / "signing.key").unlink()
        ws.forget(subjects=everybody[2:3])
        with pytest.raises(Unavailable, match="signing.key is missing"):
            ws.rotate_key()
        ws.rotate_key(lost=True)  # and signs what waits
        check_log(ws)
        assert len(ws.certificates.public_keys()) == 3
        assert (kept.folder / "signing.key").stat().st_mode & 0o077 == 0


# --- turning it on and off -----------------------------------------------------------------------


def test_epsilon_counts_from_the_next_training_on(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, random_state=None)
    with kept.open() as ws:
        everybody = trained_people(ws)
        said = ws.status().certificates
        assert str(said) == "none; certify.epsilon in unfit.toml asks for them"
    edit(kept, ("# epsilon = 1.0", "epsilon = 1.0"))
    with kept.open() as ws:
        said = ws.status().certificates
        assert str(said) == "none yet; the next training makes the first"
        ws.forget(subjects=everybody[:1], key="a")
        with pytest.raises(NoCertificate, match="trained without certify.epsilon"):
            ws.certificates.of_request("a")
        with pytest.raises(NoCertificate, match="version 2 has no certificate"):
            ws.certificates.of_version(2)
        assert "certificate.json" not in _names(ws)
        ws.retrain()
        ws.forget(subjects=everybody[1:2], key="b")
        assert [(c.version, c.kind) for c in ws.certificates.find()] == [
            (3, "retrained"),
            (4, "updated"),
        ]
        check_export(ws)
    edit(kept, ("epsilon = 1.0", "# epsilon = 1.0"))
    with kept.open() as ws:
        assert "turned off from the next training on" in str(ws.status().certificates)
        ws.forget(subjects=everybody[2:3], key="c")  # the model is certified still
        assert ws.certificates.of_request("c").version == 5
        ws.retrain()
        ws.forget(subjects=everybody[3:4], key="d")
        with pytest.raises(NoCertificate):
            ws.certificates.of_request("d")
        assert len(ws.certificates.find()) == 3
        assert "certificate.json" not in _names(ws)


def _names(ws: Workspace) -> str:
    return repr(ws.export()[1])


def test_an_erasure_that_retrains_can_make_the_first_certificate(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, random_state=None)
    edit(
        kept,
        ("# epsilon = 1.0", "epsilon = 1.0"),
        ("retrain_when = [", 'retrain_when = ["always"]  # ['),
    )
    with kept.open() as ws:
        ws.forget(subjects=trained_people(ws)[:1], key="a")
        assert ws.certificates.of_request("a").kind == "retrained"
        (key,) = ws.certificates.public_keys()
        assert ws.certificates.head().waiting == 0
        assert key.name.startswith("unfit/")
        check_export(ws)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# random_state = 0", "random_state = 0", "model.random_state makes noise known"),
        ("sigma = 0.0", "sigma = 1.0", "leave sigma at 0"),
        ("delta = 1e-05", "delta = 2.0", "certify.delta"),
        ("noise = 0.001", "noise = 0.0", "certify.noise"),
        ("epsilon = 1.0", "epsilon = -1.0", "certify.epsilon"),
    ],
)
def test_what_makes_a_certificate_worthless_is_refused(
    kept: Kept, old: str, new: str, words: str
) -> None:
    edit(kept, (old, new))
    with pytest.raises(BadInput, match=words), kept.open():
        pass


# --- backups and old records ---------------------------------------------------------------------


def test_a_restored_backup_forgets_again_and_its_log_goes_on(kept: Kept, tmp_path: Path) -> None:
    with kept.open() as ws:
        everybody = trained_people(ws)
        ws.forget(subjects=everybody[:1], key="a")
        early = str(ws.certificates.head().checkpoint)
    shutil.copytree(kept.folder, tmp_path / "backup")
    with kept.open() as ws:
        ws.forget(subjects=everybody[1:3], key="b")
        late = str(ws.certificates.head().checkpoint)
    shutil.rmtree(kept.folder)
    shutil.copytree(tmp_path / "backup", kept.folder)
    with kept.open() as ws:
        ws.active_model()
        check_log(ws)
        assert len(claims_of(ws)[-1].commitments) == 2
        assert ws.certificates.growth_since(early)["size"] == 2
        with pytest.raises(BadInput, match="a backup was restored since"):
            ws.certificates.growth_since(late)  # whoever holds it notices, and we say so


def test_records_from_before_there_were_certificates(tmp_path: Path) -> None:
    """A workspace of the first release has no certificates until it is told to make them."""
    archive = Path(__file__).parent / "earlier" / "workspace-0.1.0-fisher.tar.xz"
    shutil.unpack_archive(archive, tmp_path)
    (toml,) = tmp_path.rglob("unfit.toml")
    with Workspace(toml.parent) as ws:
        assert ws.status().certificates.entries == 0
        assert ws.certificates.find() == []
        with pytest.raises(Unsigned, match="no signed entry"):
            ws.certificates.export()
    text = toml.read_text().replace("random_state = ", "# random_state = ")
    toml.write_text(text + "\n[certify]\nepsilon = 1.0\n")
    with Workspace(toml.parent) as ws:
        ws.retrain()  # after the request that waits, whose constants are fitted anew
        assert [c.kind for c in ws.certificates.find()] == ["retrained"] * 2
        assert ws.certificates.head().waiting == 0
        check_export(ws)


# --- what nobody may see -------------------------------------------------------------------------


def test_an_export_holds_no_centre_and_no_figure_of_the_annex(kept: Kept) -> None:
    with kept.open() as ws:
        ws.forget(subjects=trained_people(ws)[:2])
        secrets = secrets_of(ws)
        shown = b"".join(opened(part) for part in check_export(ws).values())
        shown += b"".join(opened(line) for line in ws.certificates.export())
        annex = opened(ws.certificates.bundle(ws.store.certificates.last(), annex=True))
    for name in ("centre", "centre as text", "centre_salt", "centre_sha256"):
        assert not [one for one in secrets[name] if one in shown], name
    for name in ("centre_salt", "centre_sha256"):  # the search finds what is there
        assert [one for one in secrets[name] if one in annex], name


def test_decisions_state_what_the_certificate_allows_and_not_what_came_of_it(kept: Kept) -> None:
    with kept.open() as ws:
        for person in trained_people(ws)[:3]:
            ws.forget(subjects=[person])
        with ws.session() as session:
            centre = session.open_model().state.centre
        facts = [d.inputs for d in ws.store.decisions.find()[1:]]
        claim = claims_of(ws)[-1]
        allowed = claim.mu_limit * claim.noise / np.linalg.norm(centre)
        annexes = [json.loads(c.annex or "{}") for c in ws.store.certificates.find()[1:]]
        assert len({annex["distance"] for annex in annexes}) == 3
        for one in facts:  # a power of two, of which two digits are shown: not the length itself
            rounded = 2 ** np.ceil(np.log2(allowed))
            assert rounded <= one["distance"] <= 1.1 * rounded


def test_a_version_that_stays_names_the_code_that_made_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.open() as ws:
        made = claims_of(ws)[-1]
        monkeypatch.setattr("unfit.workspace.certification.code_digest", lambda: "later")
        ws.forget(subjects=held_out_people(ws)[:1])
        stays = claims_of(ws)[-1]
        assert (stays.version, stays.code_digest) == (made.version, made.code_digest)
        ws.forget(subjects=trained_people(ws)[:1])
        assert claims_of(ws)[-1].code_digest == "later"
        check_log(ws)


def test_the_statement_of_a_version_names_its_constants(kept: Kept) -> None:
    with kept.open() as ws:
        payload = ws.store.certificates.last().statement.encode()
    claim, _ = parse_statement(payload)
    assert {c.name: c.origin for c in claim.constants}["age"] == "fitted"
