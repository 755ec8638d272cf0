"""The loop that asks a policy and drives an executor; state, monitor and run reports."""
