"""Monitor, series, record and run reports."""
