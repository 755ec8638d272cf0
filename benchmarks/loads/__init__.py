"""The parts of ``benchmarks/mixed.py``."""
