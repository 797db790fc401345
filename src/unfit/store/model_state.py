"""The row of the model itself: what of the deletion list is applied, the lock's term, the purge."""

import threading
from datetime import datetime

import sqlalchemy as sa

from unfit.store.change_counter import ChangeCounter
from unfit.store.database import ModelDatabase, draw, reading, writing
from unfit.store.records import ModelRecord
from unfit.store.schema import models


def find_or_create(engine: sa.Engine, key: str, now: datetime) -> int:
    """The id of a model by its key."""
    select = sa.select(models.c.id).where(models.c.key == key)
    with reading(engine) as connection:
        found = connection.execute(select).scalar()
    if found is not None:
        return int(found)
    row = {"key": key, "created_at": now, "list_position": 0, "purge_due": False}
    row |= {"changes": draw(), "access": draw()}
    try:
        with writing(engine) as connection:
            connection.execute(sa.insert(models).values(**row))
    except sa.exc.IntegrityError:  # another process was first
        pass
    with reading(engine) as connection:
        return int(connection.execute(select).scalar_one())


class ModelState:
    """What the database knows of the model, apart from its versions and requests."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._select = sa.select(models).where(database.mine)
        self._counter, self._mutex = ChangeCounter(database), threading.Lock()

    def read(self) -> ModelRecord:
        with self._database.reading() as connection:
            return ModelRecord.from_row(connection.execute(self._select).one())

    def term(self) -> int:
        """The term of the writer's lock: whoever holds it since an earlier one has lost it."""
        # Over a connection of its own, or as plain text: it is asked for before every change of a
        # file.
        if self._database.sqlite:
            with self._mutex:
                return self._counter.term()
        asked = f"SELECT term FROM models WHERE id = {int(self._database.model_id)}"
        with self._database.reading() as connection:
            return int(connection.exec_driver_sql(asked).scalar_one())

    def close(self) -> None:
        with self._mutex:
            self._counter.close()

    def begin_term(self, after: int) -> bool:
        """Make the lock of a term void; False if somebody else was faster."""
        same = self._database.mine & (models.c.term == after)
        with self._database.writing() as connection:
            done = connection.execute(sa.update(models).where(same).values(term=after + 1))
            return bool(done.rowcount)

    def set_list_known(self, known: str) -> None:
        """Everybody whom the deletion list names up to this position is forgotten here."""
        with self._database.changing() as connection:
            self._database.note_change(connection, list_known=known)

    def set_key_fingerprint(self, fingerprint: str) -> None:
        with self._database.writing() as connection:
            self._database.update_model(connection, key_fingerprint=fingerprint)
