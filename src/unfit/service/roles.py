"""What tokens are for."""

ROLES: dict[str, str] = {
    "predict": "ask for predictions",
    "erase": "file, follow and cancel erasures; look a person up",
    "operate": "see the state of the model, retrain, export, read metrics",
    "audit": "audit, and read versions, decisions and erasures",
    "admin": "everything",
}
