"""What `unfit bench` runs: data sets and competitors, one small file each, and the sections.

A data set is a module in datasets/, a competitor one in competitors/; adding one is one file.
"""
