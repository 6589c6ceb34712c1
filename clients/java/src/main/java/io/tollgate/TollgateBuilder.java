package io.tollgate;

import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Options of a client.
 *
 * <p>Retries: a call has up to 8 attempts, each with the deadline, after pauses that grow from 100
 * ms to 2 s with full jitter, and after the RetryInfo of the server (up to 10 s). UNAVAILABLE and
 * DEADLINE_EXCEEDED are retried for calls that are safe to repeat: all but {@link Stock#set}, and
 * {@link Stock#add} and {@link Sequence#next} with an empty request id. RESOURCE_EXHAUSTED is
 * retried if the server sent RetryInfo. Retries draw on a budget: see {@link #retryBudget}.
 * Renewals and results of tasks do not: they are repeated until the lease ends, or until the
 * verdict is known.
 */
public final class TollgateBuilder {
  private static final int MESSAGE_MAX_BYTES = 64 << 20;

  private final List<String> addresses = new ArrayList<>();
  private final List<ClientInterceptor> interceptors = new ArrayList<>();
  private TlsChannelCredentials.Builder tls;
  private String serverName;
  private Supplier<String> token;
  private String namespace;
  private Duration deadline = Duration.ofSeconds(1);
  private double retryShare = 0.2;
  private int retryReserve = 10;
  private LongSupplier clock = new SystemClock();
  private Waiter.Lengths waitLengths = Waiter.Lengths.DEFAULT;

  TollgateBuilder() {}

  /**
   * Adds servers, each as {@code host:port}. Calls go to them in turn. Servers whose health is not
   * SERVING get calls only if no other server is SERVING. Required: at least one.
   */
  public TollgateBuilder addresses(String... servers) {
    addresses.addAll(List.of(servers));
    return this;
  }

  /** Encrypts the connections and trusts the authorities of the Java runtime. */
  public TollgateBuilder tls() {
    if (tls == null) {
      tls = TlsChannelCredentials.newBuilder();
    }
    return this;
  }

  /** Encrypts the connections and trusts the authorities in a PEM file. */
  public TollgateBuilder tls(Path authorities) {
    tls();
    try {
      tls.trustManager(authorities.toFile());
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return this;
  }

  /** Sets the certificate and the key (PKCS #8) of this client, both in PEM files. */
  public TollgateBuilder certificate(Path certificate, Path key) {
    tls();
    try {
      tls.keyManager(certificate.toFile(), key.toFile());
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return this;
  }

  /** Sets the name that the certificate of the server must have. Default: the host. */
  public TollgateBuilder serverName(String name) {
    serverName = name;
    return this;
  }

  /**
   * Sets the token of this client. Default: none. Use TLS with it. Fails with INVALID_ARGUMENT
   * unless it consists of printable ASCII characters.
   */
  public TollgateBuilder token(String value) {
    if (!Headers.isPrintable(value)) {
      throw TollgateException.badField("token", Headers.EXPECTED);
    }
    return token(() -> value);
  }

  /** Sets the file of the token. It is read again when it changes. */
  public TollgateBuilder tokenFile(Path file) {
    return token(new TokenCredentials.FileToken(file));
  }

  /** Sets a source of the token, asked at each attempt of a call. It may block. */
  public TollgateBuilder token(Supplier<String> source) {
    token = source;
    return this;
  }

  /**
   * Sets the namespace of all names. Default: that of the token, else the default one. Fails with
   * INVALID_ARGUMENT unless it consists of printable ASCII characters.
   */
  public TollgateBuilder namespace(String name) {
    if (!Headers.isPrintable(name)) {
      throw TollgateException.badField("namespace", Headers.EXPECTED);
    }
    namespace = name;
    return this;
  }

  /**
   * Sets the deadline of each attempt of a call, above zero. A wait adds to it, and the calls of
   * {@link Bulk} and {@link Pool#enqueue} get five times as much. Default: 1 s.
   */
  public TollgateBuilder deadline(Duration perAttempt) {
    if (perAttempt.isNegative() || perAttempt.isZero()) {
      throw new IllegalArgumentException("deadline is not above zero: " + perAttempt);
    }
    deadline = perAttempt;
    return this;
  }

  /**
   * Limits retries: each call adds {@code share} of a retry to the budget, which holds at most
   * {@code reserve} retries and begins full. Default: 0.2 and 10, thus 20 % of the calls.
   */
  public TollgateBuilder retryBudget(double share, int reserve) {
    if (!(share >= 0) || reserve < 0) {
      throw new IllegalArgumentException("share and reserve must not be negative");
    }
    retryShare = share;
    retryReserve = reserve;
    return this;
  }

  /** Adds an interceptor to all connections, for example for traces. */
  public TollgateBuilder intercept(ClientInterceptor interceptor) {
    interceptors.add(interceptor);
    return this;
  }

  /** Replaces the lengths of the calls of a wait, for tests. */
  TollgateBuilder waitLengths(Waiter.Lengths lengths) {
    waitLengths = lengths;
    return this;
  }

  /** Replaces the clock, for tests. */
  TollgateBuilder clock(LongSupplier nanos) {
    clock = nanos;
    return this;
  }

  /**
   * Returns the client, which connects in the background. Fails with IllegalArgumentException
   * without an address.
   */
  public Tollgate build() {
    if (addresses.isEmpty()) {
      throw new IllegalArgumentException("no address is given");
    }
    ExecutorService executor = Executors.newCachedThreadPool(daemons("tollgate-call"));
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(1, daemons("tollgate-timer"));
    timer.setRemoveOnCancelPolicy(true);
    CallOptions options = CallOptions.DEFAULT;
    if (token != null) {
      options = options.withCallCredentials(new TokenCredentials(token));
    }
    List<Endpoint> servers =
        addresses.stream().map(address -> new Endpoint(() -> line(address, executor))).toList();
    Endpoints endpoints = new Endpoints(servers, timer, options);
    RetryBudget budget = new RetryBudget(retryShare, retryReserve);
    Calls calls =
        new Calls(endpoints, budget, timer, clock, options, deadline, new InFlight(executor));
    Core core = new Core(calls, endpoints, clock, timer, executor, waitLengths);
    endpoints.watch();
    return new Tollgate(core);
  }

  private Endpoint.Line line(String address, ExecutorService executor) {
    ChannelCredentials credentials =
        tls == null ? InsecureChannelCredentials.create() : tls.build();
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder("dns:///" + address, credentials)
            .executor(executor)
            .disableRetry()
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(5, TimeUnit.SECONDS)
            .maxInboundMessageSize(MESSAGE_MAX_BYTES);
    if (serverName != null) {
      builder.overrideAuthority(serverName);
    }
    ManagedChannel channel = builder.build();
    List<ClientInterceptor> all = new ArrayList<>(interceptors);
    if (namespace != null) {
      Metadata headers = new Metadata();
      headers.put(
          Metadata.Key.of("x-tollgate-namespace", Metadata.ASCII_STRING_MARSHALLER), namespace);
      all.add(MetadataUtils.newAttachHeadersInterceptor(headers));
    }
    return new Endpoint.Line(channel, ClientInterceptors.intercept(channel, all));
  }

  private static ThreadFactory daemons(String name) {
    AtomicInteger count = new AtomicInteger();
    return work -> {
      Thread thread = new Thread(work, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
