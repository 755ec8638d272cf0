"""One random stream per purpose, so that adding a policy cannot shift the arrivals."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

import numpy as np


def generator_for(seed: int, purpose: str) -> np.random.Generator:
    """A numpy generator that depends on the seed and the purpose alone."""
    digest = blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def random_for(seed: int, purpose: str) -> Random:
    """The same for the standard library's generator, which is faster one number at a time."""
    return Random(f"{seed}/{purpose}")
