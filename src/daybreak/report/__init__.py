"""Tables and plots from run reports and experiments."""
