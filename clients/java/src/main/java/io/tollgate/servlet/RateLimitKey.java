package io.tollgate.servlet;

import io.tollgate.AddressKey;
import jakarta.servlet.http.HttpServletRequest;

/** Names the caller of a request, for example its user or its address. */
@FunctionalInterface
public interface RateLimitKey {
  /** Returns the key of the request; null or empty lets the request pass without a check. */
  String of(HttpServletRequest request);

  /**
   * Returns the key that is the address of the caller, or the /64 of an IPv6 address. Behind a
   * proxy it is that of the proxy.
   */
  static RateLimitKey address() {
    return address(AddressKey.IPV6_BITS);
  }

  /** Returns the same key with the given number of bits of an IPv6 address, 1 to 128. */
  static RateLimitKey address(int ipv6Bits) {
    return request -> AddressKey.of(request.getRemoteAddr(), ipv6Bits);
  }

  /** Returns the key that is the value of a header. A request without it is not checked. */
  static RateLimitKey header(String name) {
    return request -> request.getHeader(name);
  }
}
