"""Pieces of the policy ``planned``: periods of cells, their costs, and the planner."""
