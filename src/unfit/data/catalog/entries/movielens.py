"""MovieLens (small): does a user give a film four stars or more; by the film's genres and year."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling, tables
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training
from unfit.errors import BadInput

SEED = 0
_ZIP = "ml-latest-small.zip"
_RATINGS, _MOVIES = ("userId", "movieId", "rating"), ("movieId", "title", "genres")
_YEAR = re.compile(r"\((\d{4})\)\s*$")


def _read_parquet(paths: Mapping[str, Path]) -> RawArrays:
    ratings, movies = paths.values()
    return _joined(
        formats.parquet_columns(ratings, _RATINGS),
        formats.parquet_columns(movies, _MOVIES),
    )


def _read_zip(paths: Mapping[str, Path]) -> RawArrays:
    (path,) = paths.values()
    read = []
    for name, needed in (("ratings.csv", _RATINGS), ("movies.csv", _MOVIES)):
        content = formats.zip_member(path, name)
        read.append(formats.csv_columns(content, f"{path.name}/{name}", needed=needed))
    return _joined(*read)


def _joined(ratings: RawArrays, movies: RawArrays) -> RawArrays:
    """Each rating with the title and genres of its film."""
    films = tables.numbers(movies, ["movieId"])[:, 0]
    rated = tables.numbers(ratings, ["movieId"])[:, 0]
    order = np.argsort(films)
    at = order[np.minimum(np.searchsorted(films[order], rated), len(films) - 1)]
    if (unknown := films[at] != rated).any():
        raise BadInput(f"movielens: no film has the movieId {int(rated[unknown][0])} of a rating")
    return {
        "user": tables.numbers(ratings, ["userId"])[:, 0],
        "rating": tables.numbers(ratings, ["rating"])[:, 0],
        "film": at,
        "title": movies["title"],
        "genres": movies["genres"],
    }


def prepare(raw: RawArrays) -> Parts:
    """Class 1: four stars or more. Genres as ones, the year in centuries since 1900.

    Nothing is computed from ratings of others, so that a user's rows are all that knows the user.
    """
    listed = [set(genres.split("|")) for genres in raw["genres"].tolist()]
    genres = sorted(set().union(*listed))
    flags = np.array([[genre in own for genre in genres] for own in listed], np.float32)
    found = [_YEAR.search(title) for title in raw["title"].tolist()]
    years = np.array([float(match[1]) if match else np.nan for match in found])
    years[np.isnan(years)] = np.nanmedian(years)
    films = np.column_stack([flags, (years - 1900) / 100])
    n = len(raw["rating"])
    test = scaling.at_random(n, n // 10, SEED)
    return tables.parts([films[raw["film"]]], raw["rating"] >= 4, test, raw["user"])


ENTRIES = (
    Entry(
        name="movielens",
        title="MovieLens (small)",
        about="Film ratings, four stars or more against fewer; up to 2,698 rows of one user.",
        citation="Harper and Konstan 2015, The MovieLens datasets: history and context",
        terms="GroupLens: research use, no commercial use without permission, citation required",
        file_sets=(
            FileSet(
                (
                    File(
                        "movielens_small_ratings.parquet",
                        "sha256:c38383a6272458dea88f89d6bdeac54fe9c3ceba570cf21e3fd1a589d3b330b1",
                        759181,
                    ),
                    File(
                        "movielens_small_movies.parquet",
                        "sha256:2b4c2144aad5b15b1764d457ff811c22d390e721fc1eba72252f4084b117acd1",
                        203286,
                    ),
                ),
                _read_parquet,
            ),
            FileSet(
                (
                    File(
                        _ZIP,
                        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
                        978202,
                        f"https://files.grouplens.org/datasets/movielens/{_ZIP}",
                    ),
                ),
                _read_zip,
            ),
        ),
        prepare=prepare,
        training=Training(epochs=200, batch_size=512, burn_in=10),
        intercept=True,
        volumes=(0.05, 0.1, 0.2),
    ),
)
