"""`python -m unfit`, where the command itself is not on the path."""

from unfit.cli import app

if __name__ == "__main__":  # workers of a study import this module too
    app(prog_name="unfit")
