"""Rate limits for web applications (ASGI) and gRPC servers."""

from tollgate.middleware.asgi import RateLimitMiddleware

__all__ = ["RateLimitMiddleware"]
