"""Thin commands: they parse, call one function and print."""
