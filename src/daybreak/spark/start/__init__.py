"""The start of a run: a run directory is opened, a start accepted, a run assembled."""
