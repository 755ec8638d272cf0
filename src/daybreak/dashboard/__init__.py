"""A web page that shows a run and steers it, served by the run's own process."""
