"""Queries: checked, taken apart and put together, before any row is read."""
