"""Spark for the planners of mirrors and of remote filters."""
