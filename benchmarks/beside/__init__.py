"""Critical filters beside the backfill of another stream; see benchmarks/ingest_beside.py."""
