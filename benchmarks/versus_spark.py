"""Daybreak beside what one would write with Structured Streaming alone, side by side in one run.

Every side gets the same rows from the same folder, has the same filter queries of three classes,
and ends in Parquet files of its own per query. Latency counts from a row's creation until the
file that holds its result is visible in the sink. docs/results/spark.md says more.

    python benchmarks/versus_spark.py --quick --json     the goals of ingest, judged: ten minutes
    python benchmarks/versus_spark.py --goals --resume   all of them: an hour and a half
    python benchmarks/versus_spark.py [--json] [--only NAME,...] [--queries 1,25,60,250]
    python benchmarks/versus_spark.py --rate 50,800,4000 --queries 250 --only daybreak,hand
    python benchmarks/versus_spark.py --mixed | --overload | --ablation
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.versus.command import main as run

    from daybreak.model import ConfigError

    try:
        return run()
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what was measured is kept\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
