"""Ingest: sources fill the streams, and wait when the log is full."""
