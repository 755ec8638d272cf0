"""The system that class-based-thesis simulates: its operators poll their queues."""
