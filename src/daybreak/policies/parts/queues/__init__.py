"""What is ready, in which order, and how much of it is taken: lists, queues, trains."""
