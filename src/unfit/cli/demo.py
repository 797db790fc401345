"""`unfit demo`: the command; the story itself is in unfit.cli.story."""

from pathlib import Path
from typing import Annotated

import typer

from unfit.cli.common import JsonOption, errors, progress, say


def demo(
    output: Annotated[Path, typer.Option(help="The folder to make.")] = Path("unfit-demo"),
    as_json: JsonOption = False,
) -> None:
    """The whole story: train, serve, forget three waves of people, retrain, audit, report.

    On a made-up table of customers with several contracts each. While predictions go on, erasures
    arrive: of people at random, of people who left (targeted), and of those among them who weigh
    most (informed). It retrains when a policy or a changed constant asks for it. Takes under a
    minute once the kernels are compiled; everything is left in one folder.
    """
    from unfit.cli.story import as_dict, live_through, show

    with errors():
        with progress(as_json) as update:
            story = live_through(output, update)
        if as_json:
            say(as_dict(story, output))
        else:
            show(story, output)
