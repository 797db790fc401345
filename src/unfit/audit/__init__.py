"""The audit of a model: retrain independently, compare, say what was found.

comparison asks; retrained answers with an independent retraining and a control that never
unlearned; noise_check tells noise from influence; verdict judges; result keeps and words it. attack
tries to tell releases from those of a retraining, and attack_report says what that shows. May know
methods, engines and what is certified.
"""

from unfit.audit.attack import Claim, Effort, attack
from unfit.audit.attack_report import Attack
from unfit.audit.comparison import Question, compare
from unfit.audit.result import Audit, shown
from unfit.audit.verdict import Outcome

__all__ = [
    "Attack",
    "Audit",
    "Claim",
    "Effort",
    "Outcome",
    "Question",
    "attack",
    "compare",
    "shown",
]
