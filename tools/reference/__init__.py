"""The reference pages of the documentation, generated from the code.

``python -m tools.reference`` writes them; ``--check`` only compares. A test does the same.
"""
