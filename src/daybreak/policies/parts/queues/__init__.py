"""Ready boxes, their order, and how much is taken of them: lists, queues, trains."""
