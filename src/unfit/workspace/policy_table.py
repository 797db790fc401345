"""`[policy]` of unfit.toml, made from the policies that are registered.

Under the name of a policy stands the value of its knob, or a table where it has several.
"""

from dataclasses import asdict, dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from unfit.errors import Unavailable
from unfit.knobs import Knob, knobs
from unfit.lifecycle.policies import POLICIES, THETA
from unfit.lifecycle.policy import AnyOf, Policy

_FORBID = ConfigDict(extra="forbid", allow_inf_nan=False)
RETRAIN_WHEN = ("distance", "log_loss", "disparity")  # what `unfit init` proposes
_RULES = [name for name in POLICIES.built_in() if not POLICIES[name].alone]
_ALONE = [name for name in POLICIES.built_in() if POLICIES[name].alone]


def _known(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"is {name!r}, which is unknown; there are {', '.join(POLICIES)}")
    POLICIES[name]  # says why if its package cannot be imported
    return name


@dataclass(frozen=True)
class _Knobs:
    """The table of a policy with several knobs."""

    __pydantic_config__ = _FORBID


@dataclass(frozen=True, kw_only=True)
class _PolicyTable:
    __pydantic_config__ = _FORBID
    retrain_when: Annotated[
        tuple[Annotated[str, AfterValidator(_known)], ...],
        Field(min_length=1, description=f"any of {', '.join(_RULES)}; or {', '.join(_ALONE)}"),
    ] = ("disparity",)  # of files that do not say; `unfit init` writes RETRAIN_WHEN

    def keys(self) -> list[str]:
        """The keys to write: those of unfit's policies, and of others that are chosen."""
        shown = {"retrain_when", "theta", *POLICIES.built_in(), *self.retrain_when}
        return [f.name for f in fields(self) if f.name in shown]

    def chosen(self) -> list[Policy]:
        """The policies that may ask for a retraining, as they are set."""
        return [self._made(name) for name in self.retrain_when]

    def policy(self) -> Policy | AnyOf:
        chosen = self.chosen()
        return chosen[0] if len(chosen) == 1 else AnyOf(chosen)

    def _made(self, name: str) -> Policy:
        policy, value = POLICIES[name], getattr(self, name, None)
        if isinstance(value, _Knobs):
            return policy(**asdict(value))
        return policy(**{knob.name: value for knob in knobs(policy)})


def _with_policies() -> type[_PolicyTable]:
    """The table with a key for each policy that has knobs."""
    keys: list[tuple[str, Any, Any]] = []
    for name in POLICIES:
        try:
            found = knobs(POLICIES[name])
        except Unavailable:  # of a package that cannot be imported: an error where it is named
            continue
        if len(found) == 1:
            keys.append((name, *_typed(found[0])))
        elif found:
            own = make_dataclass(
                name, [(k.name, *_typed(k)) for k in found], bases=(_Knobs,), frozen=True
            )
            help = "; ".join(f"{k.name}: {k.help}" for k in found)
            keys.append((name, Annotated[own, Field(description=help)], field(default_factory=own)))
    theta = Annotated[
        float, Field(gt=0, lt=1, description="share of rows deleted in the rehearsal that learns c")
    ]
    return make_dataclass(
        "PolicyTable",
        [*keys, ("theta", theta, THETA)],
        bases=(_PolicyTable,),
        namespace={"__doc__": _DOC},
        frozen=True,
        kw_only=True,
    )


def _typed(knob: Knob) -> tuple[Any, Any]:
    return Annotated[knob.type, Field(description=knob.help)], knob.default


_DOC = """When an erasure leads to a retraining: any of the rules in retrain_when.
A changed constant or a class without rows always does, even with "never"."""

if TYPE_CHECKING:

    @dataclass(frozen=True, kw_only=True)
    class PolicyTable(_PolicyTable):
        """The keys that unfit itself reads."""

        disparity: float = 1.0
        theta: float = THETA
else:
    PolicyTable = _with_policies()
