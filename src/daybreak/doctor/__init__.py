"""Examines the machine, the installation and a pipeline before anything is started.

Every check works where PySpark or Java is missing or broken: that is when it is needed.
"""
