"""Experiments of the class-based-scheduling thesis, chapters 4 to 7."""
