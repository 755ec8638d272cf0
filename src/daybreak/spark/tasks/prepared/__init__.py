"""Prepared plans: a query is planned once, then run over train after train without a Spark job."""
