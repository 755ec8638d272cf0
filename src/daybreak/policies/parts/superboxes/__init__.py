"""Superboxes: which boxes they hold, in which order these run, and which goes first."""
