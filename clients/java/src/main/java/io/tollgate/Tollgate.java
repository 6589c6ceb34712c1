package io.tollgate;

import io.tollgate.v1.Rule;

/**
 * A client of Tollgate. Create one and share it between all threads.
 *
 * <pre>{@code
 * try (Tollgate tollgate = Tollgate.connect("127.0.0.1:50051")) {
 *   Admission admission = tollgate.pool("ar:0571").admit("device-1", "task-1");
 *   if (admission instanceof Admission.Admitted admitted) {
 *     admitted.permit().run(permit -> permit.complete(Outcome.SUCCEEDED));
 *   }
 * }
 * }</pre>
 *
 * <p>Every call fails with {@link TollgateException} if it could not be decided. Names are 1 to 256
 * bytes of UTF-8 without control characters.
 */
public final class Tollgate implements AutoCloseable {
  private final Core core;

  Tollgate(Core core) {
    this.core = core;
  }

  /** Returns a client of the servers at the given addresses, without TLS and with defaults. */
  public static Tollgate connect(String... addresses) {
    return builder().addresses(addresses).build();
  }

  /** Returns a builder with all options. */
  public static TollgateBuilder builder() {
    return new TollgateBuilder();
  }

  /** Returns a pool. It needs no creation; this sends no call. */
  public Pool pool(String name) {
    return new Pool(core, name);
  }

  /** Returns the bulk calls of admission. */
  public Bulk bulk() {
    return new Bulk(core);
  }

  /** Returns a limiter that checks calls against a policy of the configuration. */
  public RateLimiter limiter(String policy) {
    return new RateLimiter(core, policy);
  }

  /** Returns a limiter that checks calls against a rule, which travels with each call. */
  public RateLimiter limiter(Rule rule) {
    return new RateLimiter(core, rule);
  }

  /** Returns the operations on keys and policies of rates. */
  public Rates rates() {
    return new Rates(core);
  }

  /** Returns a sequence. It needs no creation. */
  public Sequence sequence(String name) {
    return new Sequence(core, name);
  }

  /** Returns a lock. It needs no creation. */
  public Lock lock(String name) {
    return new Lock(core, name);
  }

  /** Returns the stock of a sku. */
  public Stock stock(String sku) {
    return new Stock(core, sku);
  }

  /**
   * Stops all keepers and closes the connections. Calls that run or wait fail immediately with
   * UNAVAILABLE, and so do later calls. Workers end, and watches fail. Leases end at their expiry.
   */
  @Override
  public void close() {
    core.close();
  }
}
