"""Every table and figure of the source texts, one runnable experiment each."""
