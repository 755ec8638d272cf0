"""Upkeep of a run: removal, retention, health, the record and the event log."""
