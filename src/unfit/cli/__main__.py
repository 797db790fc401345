"""`python -m unfit.cli`."""

from unfit.cli import app

app()
