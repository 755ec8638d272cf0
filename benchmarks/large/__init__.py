"""Large streams: what cluster_test.py and dataplane.py run, and how they check it."""
