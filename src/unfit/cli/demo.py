"""`unfit demo`: the command; the story itself is in unfit.cli.story."""

from pathlib import Path
from typing import Annotated

import typer

from unfit.cli.common import JsonOption, errors, print_json, progress_bar


def demo(
    output: Annotated[Path, typer.Option(help="The folder to create.")] = Path("unfit-demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A twentieth of the customers, and few columns.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the whole story: train, serve, forget three waves of people, retrain, audit, report.

    Uses a made-up table of customers with several contracts each. While predictions are served,
    erasures arrive: of random people, of people who left (targeted), and of those among them with
    the most weight (informed). The model is retrained when a policy or a changed constant requires
    it. Takes two or three minutes; everything is left in one folder.
    """
    from unfit.cli.story import QUICK, WHOLE, as_dict, play, show

    with errors():
        with progress_bar(as_json) as progress:
            story = play(output, progress, QUICK if quick else WHOLE)
        if as_json:
            print_json(as_dict(story, output))
        else:
            show(story, output)
