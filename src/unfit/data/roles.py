"""Which columns are not features; what `unfit.toml` says under [roles]."""

from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True)
class Roles:
    """The columns that are not features.

    label: what to predict. subject: whose row it is (None: every row is its own subject). row_id:
    names a row (None: its number in the source). positive: labels that form one class against the
    rest. drop_missing: rows that lack one of these are left out; otherwise they are an error.
    """

    label: str
    _: KW_ONLY
    subject: str | None = None
    row_id: str | None = None
    positive: tuple[str, ...] = ()
    drop_missing: bool = False

    def class_of(self, label: str) -> str:
        """The class that a label belongs to."""
        if not self.positive:
            return label
        return " or ".join(self.positive) if label in self.positive else "rest"

    def names(self) -> list[str]:
        return [name for name in (self.label, self.subject, self.row_id) if name is not None]
