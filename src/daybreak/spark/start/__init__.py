"""What happens once: a run directory is opened, a start accepted, a run assembled."""
