"""`unfit certificate`, `unfit log` and `unfit key`: what strangers are given to check."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unfit.cli.common import JsonOption, WorkspaceOption, errors, find_workspace, print_json
from unfit.errors import BadInput

if TYPE_CHECKING:
    from unfit.store.records import CertificateRecord
    from unfit.workspace import Workspace
    from unfit.workspace.certificates import Certificate

_STYLE: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
log_app = typer.Typer(help="The log of certificates: list, checkpoint, export, prove.", **_STYLE)
key_app = typer.Typer(help="The key that signs certificates: show, sign, rotate.", **_STYLE)
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write it to this file instead of the screen.")
]


def certificate(
    *,
    key: Annotated[
        str | None,
        typer.Argument(help="The key of an erasure. Default: the newest certificate."),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(min=1, max=2**31 - 1, help="The certificate of this version."),
    ] = None,
    person: Annotated[
        bool,
        typer.Option("--person", help="What the erased person gets, once: with the salts."),
    ] = False,
    annex: Annotated[
        bool,
        typer.Option("--annex", help="For an auditor: with the figures that depend on the data."),
    ] = False,
    since: Annotated[
        Path | None, typer.Option(help="An older checkpoint: prove that the log has only grown.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a page to print to this file as well.")
    ] = None,
    output: OutputOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Hand out a certificate: what is claimed of a version, signed, with its place in the log.

    `unfit verify FILE --key KEY` checks it, and so does verify.py, which needs no unfit. --person
    gives, once, the salts that open the commitments to the ids of the request: on the screen and on
    the page. They are removed here as soon as all of it is written.

    Example: unfit certificate request-1042 --person -o certificate.json --page certificate.html
    """
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        if key is not None and version is not None:
            raise BadInput("name an erasure by its key, or a version with --version, not both")
        if person and key is None:
            raise BadInput("--person needs the key of an erasure")
        if person and annex:
            raise BadInput("--annex is for auditors, and not for the erased person")
        for path in (output, page):
            if path is not None and not path.absolute().parent.is_dir():
                raise BadInput(f"there is no folder {path.absolute().parent} to write {path} to")
        record = _record(ws, key, version)
        older = None if since is None else _text(since)
        made = ws.certificates.bundle(record, annex=annex, since=older)
        with ExitStack() as removed_at_the_end:
            salts: Sequence[tuple[str, str]] = ()
            if person and key is not None:
                salts = removed_at_the_end.enter_context(ws.certificates.handing_out(key)).salts
            _put(made, output)
            if page is not None:
                _write_page(ws, record, salts, page)
            for salt, commitment in salts:
                typer.echo(f"salt {salt} opens {commitment}", err=output is None)
        if salts:
            typer.echo(
                "keep these salts: they are not here any more. Check with `unfit verify ... --salt "
                "SALT --id ID`",
                err=True,
            )
            ws.purge()  # what the database still holds of them


def _record(ws: "Workspace", key: str | None, version: int | None) -> "CertificateRecord":
    if key is not None:
        return ws.certificates.of_request(key)
    found = ws.store.certificates.find(version=version, last=1)
    if not found:
        which = "" if version is None else f" of version {version}"
        why = "certify.epsilon in unfit.toml asks for them, and every training makes the first one"
        raise BadInput(f"there is no certificate{which}; {why}")
    return found[0]


@log_app.command("list")
def list_log(*, workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Every certificate, from the first: version, rows, mu of all releases so far, signature."""
    with errors(), _open(workspace) as ws:
        found = ws.certificates.find()
    if as_json:
        print_json({"certificates": [one.as_dict() for one in found]})
        return
    for one in found:
        typer.echo(_line(one))
    if not found:
        typer.echo("no certificate yet")


def _line(one: "Certificate") -> str:
    claim = one.claim
    signed = claim.issued if one.signed else "waits for a signature"
    return (
        f"{one.number:>5}  version {one.version:<5} {one.kind:<9} {claim.rows:>10,} rows  "
        f"joint mu {claim.joint_mu:<7.3g} {signed}"
    )


@log_app.command("checkpoint")
def checkpoint(
    *, output: OutputOption = None, workspace: WorkspaceOption = None, as_json: JsonOption = False
) -> None:
    """The signed head of the log. Whoever keeps one notices if the log is rewritten."""
    with errors(), _open(workspace) as ws:
        head = ws.certificates.head()
        if as_json:
            print_json(head.as_dict())
            return
        if head.checkpoint is None:
            raise BadInput("the log has no signed entry yet")
        _put(head.checkpoint.encode(), output)


@log_app.command("export")
def export_log(*, output: OutputOption = None, workspace: WorkspaceOption = None) -> None:
    """The whole log, as `unfit verify --log` reads it."""
    with errors(), _open(workspace) as ws:
        _put(b"".join(ws.certificates.export()), output)


@log_app.command("prove")
def prove(
    *,
    since: Annotated[Path, typer.Argument(help="An older checkpoint of this log.")],
    workspace: WorkspaceOption = None,
) -> None:
    """Prove that the log has only grown since an older checkpoint (RFC 6962)."""
    with errors(), _open(workspace) as ws:
        print_json(ws.certificates.growth_since(_text(since)))


@key_app.command("show")
def show(*, workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """The public keys, one a line, the one in use last: give them to those who check."""
    with errors(), _open(workspace) as ws:
        keys = [key.text for key in ws.certificates.public_keys()]
    if as_json:
        print_json({"keys": keys})
        return
    for key in keys:
        typer.echo(key)
    if not keys:
        typer.echo("no key yet: the first certified training registers one")


@key_app.command("sign")
def sign(*, workspace: WorkspaceOption = None) -> None:
    """Sign the certificates that wait, once the key is back."""
    with errors(), _open(workspace) as ws:
        done = ws.sign_certificates()
        waiting = ws.certificates.head()
    typer.echo(f"signed {done:,}; {waiting.waiting:,} wait")
    if waiting.problem:
        typer.echo(waiting.problem, err=True)


@key_app.command("rotate")
def rotate(
    *,
    lost: Annotated[
        bool, typer.Option("--lost", help="The old key is gone for good; sign with a new one.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Sign with a new key from now on. Older certificates keep their signatures."""
    with errors(), _open(workspace) as ws:
        made = ws.rotate_key(lost=lost)
    typer.echo(made.text)
    typer.echo("tell those who check: the old key counts for older certificates only", err=True)


def _open(workspace: Path | None) -> "Workspace":
    from unfit.workspace import Workspace

    return Workspace(find_workspace(workspace))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def _put(content: bytes, output: Path | None) -> None:
    if output is None:
        typer.echo(content.decode(), nl=False)
        return
    _write(output, content)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None


def _write_page(
    ws: "Workspace", record: "CertificateRecord", salts: Sequence[tuple[str, str]], page: Path
) -> None:
    from unfit.pages.certificate import certificate_page
    from unfit.workspace.certificates import Certificate

    html = certificate_page(Certificate.of(record), salts, ws.certificates.head())
    _write(page, html.encode())
