"""The log: what arrived, how far each query has read, what is committed."""
