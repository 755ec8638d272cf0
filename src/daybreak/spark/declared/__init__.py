"""What an application declares, checked with Spark; and the queries registered since."""
