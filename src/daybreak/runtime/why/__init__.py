"""Why answers were late: the stages of the slowest ones, and what each stage was lost to."""
