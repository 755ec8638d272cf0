"""What keeps a run going: removal, retention, health, the record and the event log."""
