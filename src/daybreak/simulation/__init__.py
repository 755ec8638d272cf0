"""An executor in virtual time, arrival processes, workload generators."""
