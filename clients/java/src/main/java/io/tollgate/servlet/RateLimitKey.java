package io.tollgate.servlet;

import jakarta.servlet.http.HttpServletRequest;

/** Names the caller of a request, for example its user or its address. */
@FunctionalInterface
public interface RateLimitKey {
  /** Returns the key of the request; null or empty lets the request pass without a check. */
  String of(HttpServletRequest request);

  /** Returns the key that is the address of the caller. Behind a proxy it is that of the proxy. */
  static RateLimitKey address() {
    return request -> "ip:" + request.getRemoteAddr();
  }

  /** Returns the key that is the value of a header. A request without it is not checked. */
  static RateLimitKey header(String name) {
    return request -> request.getHeader(name);
  }
}
