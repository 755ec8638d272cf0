"""Who runs next: one policy per file, one registry; pure decisions, no I/O, no clock."""
