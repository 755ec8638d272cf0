"""Pieces of policies that choose a class first, or divide its priority."""
