"""The policy ``planned`` beside all others that run on Spark."""
