"""The audit of a model: retrain independently, compare, say what was found.

comparison asks; retrained answers with an independent retraining and a control that never
unlearned; noise_check tells noise from influence; verdict judges; result keeps and words it. May
know methods and engines.
"""

from unfit.audit.comparison import Question, compare
from unfit.audit.result import Audit, shown
from unfit.audit.verdict import Outcome

__all__ = ["Audit", "Outcome", "Question", "compare", "shown"]
