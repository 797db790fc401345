"""Extensions of unfit that live in a package of their own, one module each."""
