"""Pieces that several policies, the engine and its drivers share."""
