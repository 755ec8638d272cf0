"""What running a box or query is worth now: by rate, freshness or QoS."""
