"""Nexmark: an auction site's persons, auctions and bids, and 23 queries over them."""
