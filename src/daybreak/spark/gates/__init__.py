"""Gates before the micro-batches of streaming queries: none runs until it is granted."""
