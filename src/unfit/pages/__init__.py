"""Self-contained HTML pages, without scripts and without requests to other hosts."""
