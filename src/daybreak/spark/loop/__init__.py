"""The loop that drives the engine: events in, instructions carried out."""
