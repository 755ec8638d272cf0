"""The worth of running a box or query now: by rate, freshness or QoS."""
