package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Duration;
import com.google.rpc.RetryInfo;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.MetadataUtils;
import io.tollgate.grpc.RateLimitInterceptor;
import io.tollgate.runner.WebServer;
import io.tollgate.servlet.RateLimitFilter;
import io.tollgate.servlet.RateLimitKey;
import io.tollgate.v1.Limit;
import io.tollgate.v1.Rule;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class RateTest {
  private static TestServer server;
  private static Tollgate tollgate;

  @BeforeAll
  static void start() throws Exception {
    server = TestServer.start();
    tollgate = server.connect();
  }

  @AfterAll
  static void stop() {
    tollgate.close();
    server.close();
  }

  @Test
  void checkCountsAndRefuses() {
    RateLimiter limiter = tollgate.limiter("three");
    RateDecision first = limiter.check("a", 2, "id");
    assertEquals(1, first.limits().get(0).remaining());
    assertTrue(limiter.check("a", 2, "id").replayed());
    RateDecision refused = limiter.check("a", 2);
    assertFalse(refused.allowed());
    assertEquals(RateVerdict.THROTTLE, refused.verdict().orElseThrow());
    assertTrue(refused.limits().get(0).refused());
    assertTrue(refused.retryAfter().isPresent());
    assertTrue(tollgate.rates().reset("a", "three"));
    assertTrue(limiter.check("a", 2).allowed());
  }

  @Test
  void ruleTravelsWithTheCall() {
    Limit limit =
        Limit.newBuilder().setMax(1).setWindow(Duration.newBuilder().setSeconds(3_600)).build();
    RateLimiter limiter = tollgate.limiter(Rule.newBuilder().addLimits(limit).build());
    assertTrue(limiter.check("rule").allowed());
    assertFalse(limiter.check("rule").allowed());
  }

  @Test
  void headersFollowTheDraft() {
    RateDecision warned = null;
    for (int call = 0; call < 2; call++) {
      warned = tollgate.limiter("tiers").check("headers");
    }
    assertEquals(RateVerdict.WARN, warned.verdict().orElseThrow());
    assertTrue(warned.crossed());
    assertEquals("\"hour\";q=5;w=3600", warned.headers().get("ratelimit-policy"));
    assertTrue(warned.headers().get("ratelimit").matches("\"hour\";r=3;t=3\\d\\d\\d"));
    assertFalse(warned.headers().containsKey("retry-after"));
  }

  @Test
  void bansAreListed() {
    tollgate.rates().ban("bad", "three", java.time.Duration.ofMinutes(5), "test");
    assertEquals("bad", tollgate.rates().bans("three", "").items().get(0).key());
    RateDecision banned = tollgate.limiter("three").check("bad");
    assertEquals(RateVerdict.BAN, banned.verdict().orElseThrow());
    assertEquals("test", banned.ban().orElseThrow().reason());
    KeyStatus key = tollgate.rates().key("bad", "three");
    assertEquals(banned.ban(), key.ban());
    assertEquals(1, key.strikes());
    assertEquals(0, key.limits().get(0).count());
    assertTrue(tollgate.rates().unban("bad", "three"));
    assertEquals(2, tollgate.rates().policies().size());
  }

  @Test
  void filterLimitsRealRequests() throws Exception {
    RateLimitFilter filter =
        new RateLimitFilter(tollgate.limiter("three"), RateLimitKey.header("x-caller"));
    try (WebServer web = WebServer.start(filter)) {
      for (int call = 0; call < 3; call++) {
        HttpResponse<String> passed = get(web, "web");
        assertEquals(200, passed.statusCode());
        assertEquals("ok", passed.body());
        assertEquals(
            "\"default\";q=3;w=3600", passed.headers().firstValue("RateLimit-Policy").get());
      }
      HttpResponse<String> refused = get(web, "web");
      assertEquals(429, refused.statusCode());
      assertTrue(Integer.parseInt(refused.headers().firstValue("Retry-After").get()) > 0);
      assertTrue(refused.headers().firstValue("RateLimit").get().startsWith("\"default\";r=0;t="));
      assertEquals(200, get(web, "").statusCode());
    }
  }

  private static HttpResponse<String> get(WebServer web, String caller) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(web.url())).header("x-caller", caller).build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
  }

  @Test
  void filterFailsOpenClosedOrWithAnError() throws Exception {
    try (Tollgate nowhere = Tollgate.connect("127.0.0.1:" + TestServer.freePort())) {
      RateLimiter limiter = nowhere.limiter("three");
      RateLimitKey key = RateLimitKey.address();
      try (WebServer web = WebServer.start(new RateLimitFilter(limiter, key))) {
        assertEquals(503, get(web, "x").statusCode());
      }
      try (WebServer web = WebServer.start(new RateLimitFilter(limiter.failOpen(), key))) {
        assertEquals(200, get(web, "x").statusCode());
      }
      try (WebServer web = WebServer.start(new RateLimitFilter(limiter.failClosed(), key))) {
        assertEquals(429, get(web, "x").statusCode());
      }
    }
  }

  /** Calls that are never answered, and whose deadline never comes. */
  private static final class Silence extends ClientCall<Object, Object> {
    @Override
    public void start(Listener<Object> listener, Metadata headers) {}

    @Override
    public void request(int count) {}

    @Override
    public void cancel(String message, Throwable cause) {}

    @Override
    public void halfClose() {}

    @Override
    public void sendMessage(Object message) {}
  }

  @Test
  void limiterDecidesAfterOneDeadlineWithoutATurn() {
    AtomicInteger sent = new AtomicInteger();
    ClientInterceptor silence =
        new ClientInterceptor() {
          @Override
          @SuppressWarnings("unchecked")
          public <Q, A> ClientCall<Q, A> interceptCall(
              MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            sent.incrementAndGet();
            return (ClientCall<Q, A>) new Silence();
          }
        };
    try (Tollgate silent =
        Tollgate.builder()
            .addresses("127.0.0.1:1")
            .deadline(java.time.Duration.ofMillis(50))
            .intercept(silence)
            .build()) {
      RateLimiter limiter = silent.limiter("three");
      for (int call = 0; call < InFlight.MAX; call++) {
        var unused = limiter.checkAsync("k");
      }
      RateDecision open = limiter.failOpen().check("k");
      assertTrue(open.allowed() && open.degraded());
      RateDecision closed = limiter.failClosed().check("k");
      assertTrue(!closed.allowed() && closed.degraded());
      assertEquals(InFlight.MAX, sent.get());
    }
  }

  @Test
  void interceptorAnswersWithRetryInfo() throws Exception {
    Server limited =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
            .addService(new HealthStatusManager().getHealthService())
            .intercept(
                new RateLimitInterceptor(
                    tollgate.limiter("three"), RateLimitInterceptor.Key.header("x-caller")))
            .build()
            .start();
    ManagedChannel channel =
        NettyChannelBuilder.forAddress("127.0.0.1", limited.getPort()).usePlaintext().build();
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("x-caller", Metadata.ASCII_STRING_MARSHALLER), "grpc");
    var stub =
        HealthGrpc.newBlockingStub(channel)
            .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
    HealthCheckRequest request = HealthCheckRequest.getDefaultInstance();
    for (int call = 0; call < 3; call++) {
      var unused = stub.check(request);
    }
    StatusRuntimeException refused =
        assertThrows(StatusRuntimeException.class, () -> stub.check(request));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, refused.getStatus().getCode());
    RetryInfo info = StatusProto.fromThrowable(refused).getDetails(0).unpack(RetryInfo.class);
    assertTrue(info.getRetryDelay().getSeconds() > 0);
    channel.shutdownNow();
    limited.shutdownNow();
  }
}
