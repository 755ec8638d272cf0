"""Any ``StreamingQuery`` of a session, governed: a policy decides when its micro-batches run."""
