"""What lasts: the database of requests, versions and decisions, and the files of models."""
