"""Sinks: where committed rows go, and how they get there."""
