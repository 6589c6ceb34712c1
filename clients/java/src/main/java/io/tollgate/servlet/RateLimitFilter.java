package io.tollgate.servlet;

import io.tollgate.RateDecision;
import io.tollgate.RateLimiter;
import io.tollgate.TollgateException;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.Serial;

/**
 * Filter that answers 429 to requests beyond the rate of their caller, with {@code Retry-After}.
 * All checked answers have the headers {@code RateLimit} and {@code RateLimit-Policy} of
 * draft-ietf-httpapi-ratelimit-headers.
 *
 * <p>A check that could not be decided answers 503, unless the limiter has a failure policy. A
 * request is checked once, also if it is forwarded.
 */
public final class RateLimitFilter extends HttpFilter {
  @Serial private static final long serialVersionUID = 1L;

  private static final int TOO_MANY_REQUESTS = 429;

  private final transient RateLimiter limiter;
  private final transient RateLimitKey key;

  /** Creates a filter that checks the key of each request with the limiter. */
  public RateLimitFilter(RateLimiter limiter, RateLimitKey key) {
    this.limiter = limiter;
    this.key = key;
  }

  @Override
  protected void doFilter(
      HttpServletRequest request, HttpServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    String mark = RateLimitFilter.class.getName() + "@" + System.identityHashCode(this);
    String caller = key.of(request);
    if (caller == null || caller.isEmpty() || request.getAttribute(mark) != null) {
      chain.doFilter(request, response);
      return;
    }
    request.setAttribute(mark, true);
    RateDecision decision;
    try {
      decision = limiter.check(caller);
    } catch (TollgateException failure) {
      limiter.log("the request gets 503", failure);
      response.sendError(HttpServletResponse.SC_SERVICE_UNAVAILABLE);
      return;
    }
    decision.headers().forEach((name, value) -> response.setHeader(httpName(name), value));
    if (decision.allowed()) {
      chain.doFilter(request, response);
    } else {
      response.sendError(TOO_MANY_REQUESTS);
    }
  }

  private static String httpName(String name) {
    return switch (name) {
      case "ratelimit" -> "RateLimit";
      case "ratelimit-policy" -> "RateLimit-Policy";
      case "retry-after" -> "Retry-After";
      default -> name;
    };
  }
}
