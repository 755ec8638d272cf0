"""Adapters to filter services. Redis, PostgreSQL and HTTP need the ``filters`` extra.

Import those from their modules: ``from daybreak.filters.services.redis import redis_service``.
"""

from daybreak.filters.services.base import Replica, Service, ServiceUnavailable
from daybreak.filters.services.callables import CallableReplica, callable_service

__all__ = ["CallableReplica", "Replica", "Service", "ServiceUnavailable", "callable_service"]
