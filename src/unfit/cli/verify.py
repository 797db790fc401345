"""`unfit verify`."""

from pathlib import Path
from typing import Annotated

import typer

from unfit.cli.common import JsonOption


def verify(
    certificate: Annotated[
        Path | None, typer.Argument(help="The certificate's file; none to check a log alone.")
    ] = None,
    *,
    key: Annotated[
        list[str],
        typer.Option(
            help="The owner's public key, or a file that holds it. Take it from the owner's "
            "website or contract, never from where the certificate came from."
        ),
    ],
    model: Annotated[Path | None, typer.Option(help="The released model.")] = None,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Your id in the owner's records; with --salt.")
    ] = None,
    salt: Annotated[
        str | None, typer.Option(help="What you were sent when you were deleted; with --id.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="An older checkpoint of the log, which you kept.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="The export of the whole log.")] = None,
    annex: Annotated[Path | None, typer.Option(help="For auditors: the sealed annex.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="For auditors: the remaining rows, .npz with X and y.")
    ] = None,
    centre: Annotated[
        Path | None, typer.Option(help="For auditors: the weights before noise, .npy.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a certificate that somebody gave you. No workspace is needed.

    Every check is a line: ok, FAILED, or not checked, with what to give so that it is. The same
    checks are in one file that needs nothing of unfit: unfit/certify/verify.py.
    Exit codes: 0 nothing failed, 1 a check failed, 2 an argument cannot be used.
    """
    from unfit.certify import verify as verifier

    files = verifier.Files(
        certificate=certificate,
        keys=key,
        model=model,
        annex=annex,
        checkpoint=checkpoint,
        log=log,
        salt=salt,
        identifier=identifier,
        data=data,
        centre=centre,
    )
    try:
        done = verifier.verify_files(files)
    except (verifier.Unreadable, verifier.MissingLibrary) as error:
        typer.echo(f"unfit: {error}", err=True)
        raise typer.Exit(2) from None
    verifier.show(verifier.report_json(done) if as_json else verifier.report(done))
    if done.failed:
        raise typer.Exit(1)
