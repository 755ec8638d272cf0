"""Pieces of the broadcast-disk policies: ``abd``, ``mbd`` and its variants."""
