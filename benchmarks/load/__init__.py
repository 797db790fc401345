"""The service under load: `python -m benchmarks.load`.

A workspace is made, the real service is started as a process, and a generator in a process of its
own asks it for predictions and files erasures for a bounded time. Processes may be killed on the
way. Afterwards the ledger of what was accepted is held against the records: nothing lost, nothing
twice, and no prediction by a version that still knew somebody whose erasure was reported in force.
"""
