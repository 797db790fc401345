"""One module a competitor: what people would do instead."""
