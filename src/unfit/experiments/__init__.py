"""The paper's experiments: deletion laws, sweeps, figures, tables, claims.

May know methods, engines, lifecycle's policies and data; never store, workspace or a page.
Needs the extra `unfit[experiments]`.
"""
