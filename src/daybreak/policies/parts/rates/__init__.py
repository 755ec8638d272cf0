"""Estimates of what arrives and what leaves per second."""
