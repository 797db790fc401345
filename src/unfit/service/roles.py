"""The roles a token may have."""

ROLES: dict[str, str] = {
    "predict": "request predictions",
    "erase": "submit, follow and cancel erasures; look up a person; hand out a person's proof",
    "operate": "see the status of the model, retrain, export, read metrics",
    "audit": "audit; read versions, decisions and erasures, and annexes of certificates",
    "admin": "everything",
}
