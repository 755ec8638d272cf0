"""The parts of benchmarks/soak.py; tests run short forms of them."""
