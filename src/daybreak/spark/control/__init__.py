"""Control: what operators ask of a run, and what they see of it."""
