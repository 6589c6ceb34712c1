package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** TLS, client certificates, tokens and namespaces. */
@Timeout(120)
class SecurityTest {
  private static final String CONFIG =
      """
      [tls]
      cert = "%s"
      key = "%s"
      client_ca = "%s"
      client_auth = "optional"

      [[caller]]
      name = "acme-backend"
      mtls = "spiffe://acme/backend*"
      namespace = "acme"
      allow = ["use", "read"]

      [[caller]]
      name = "acme-operator"
      token_sha256 = ["%s"]
      namespace = "acme"
      allow = ["read", "manage"]

      [[caller]]
      name = "everywhere"
      token_sha256 = ["%s", "%s"]
      namespace = "*"
      allow = ["use", "read"]
      """;

  @TempDir static Path folder;

  private static final String OPERATOR = token();
  private static final String EVERYWHERE = token();
  private static final String ROTATED = token();

  private static Certificates certificates;
  private static TestServer server;

  @BeforeAll
  static void start() throws Exception {
    certificates = new Certificates(folder);
    certificates.issue("server", "san=dns:gate.test", "eku=serverAuth");
    certificates.issue("backend", "san=uri:spiffe://acme/backend-1", "eku=clientAuth");
    certificates.issue("stranger", "san=uri:spiffe://other/backend-1", "eku=clientAuth");
    server =
        TestServer.configured(
            CONFIG.formatted(
                certificates.certificate("server"),
                certificates.key("server"),
                certificates.authority(),
                digest(OPERATOR),
                digest(EVERYWHERE),
                digest(ROTATED)));
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  private static String token() {
    byte[] random = new byte[32];
    new SecureRandom().nextBytes(random);
    return HexFormat.of().formatHex(random);
  }

  private static String digest(String token) throws Exception {
    byte[] text = token.getBytes(StandardCharsets.US_ASCII);
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text));
  }

  private static TollgateBuilder trusting() {
    return Tollgate.builder()
        .addresses(server.address())
        .tls(certificates.authority())
        .serverName("gate.test");
  }

  private static TollgateBuilder backend() {
    return certified("backend");
  }

  private static TollgateBuilder certified(String name) {
    return trusting().certificate(certificates.certificate(name), certificates.key(name));
  }

  /** Checks the code and the reason of the error of a call. */
  private static void refused(TollgateBuilder builder, Status.Code code, String reason) {
    try (Tollgate tollgate = builder.build()) {
      var sequence = tollgate.sequence("refused");
      TollgateException error = assertThrows(TollgateException.class, sequence::next);
      assertEquals(code, error.code());
      assertEquals(reason, error.reason());
    }
  }

  @Test
  void nameOfTheServerIsVerified() {
    refused(trusting().serverName("other.test"), Status.Code.UNAVAILABLE, "");
  }

  @Test
  void authorityOfTheServerIsVerified() {
    Path other = certificates.certificate("stranger");
    TollgateBuilder builder =
        Tollgate.builder().addresses(server.address()).tls(other).serverName("gate.test");
    refused(builder, Status.Code.UNAVAILABLE, "");
  }

  @Test
  void credentialsAreNeeded() {
    refused(trusting(), Status.Code.UNAUTHENTICATED, "CREDENTIALS_MISSING");
    refused(certified("stranger"), Status.Code.UNAUTHENTICATED, "CALLER_UNKNOWN");
    refused(trusting().token(token()), Status.Code.UNAUTHENTICATED, "TOKEN_UNKNOWN");
  }

  @Test
  void certificateIsTheCaller() {
    try (Tollgate tollgate = backend().build()) {
      Pool pool = tollgate.pool("certificate");
      Permit permit = pool.admit("d", "t").granted().orElseThrow();
      assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
      TollgateException error =
          assertThrows(TollgateException.class, () -> pool.evict("d", "t", "test"));
      assertEquals(Status.Code.PERMISSION_DENIED, error.code());
      assertEquals("PERMISSION_MISSING", error.reason());
    }
  }

  @Test
  void tokenIsTheCaller() {
    try (Tollgate device = backend().build();
        Tollgate operator = trusting().token(OPERATOR).build()) {
      Permit permit = device.pool("token").admit("d", "t").granted().orElseThrow();
      assertEquals(1, operator.pool("token").status().usage().inUse());
      assertEquals(EvictVerdict.EVICTED, operator.pool("token").evict("d", "t", "test").verdict());
      assertEquals(CompleteVerdict.LATE, permit.complete(Outcome.SUCCEEDED));
    }
    refused(trusting().token(OPERATOR), Status.Code.PERMISSION_DENIED, "PERMISSION_MISSING");
  }

  @Test
  void tokenGoesBeforeTheCertificate() {
    refused(backend().token(OPERATOR), Status.Code.PERMISSION_DENIED, "PERMISSION_MISSING");
  }

  @Test
  void fileOfATokenIsReadAgain() throws Exception {
    Path file = folder.resolve("token");
    Files.writeString(file, EVERYWHERE + "\n");
    try (Tollgate tollgate = trusting().tokenFile(file).build()) {
      Sequence sequence = tollgate.sequence("rotation");
      assertEquals(1, sequence.next());
      Files.writeString(file, "replaced");
      TollgateException error = assertThrows(TollgateException.class, sequence::next);
      assertEquals("TOKEN_UNKNOWN", error.reason());
      Files.writeString(file, ROTATED);
      assertEquals(2, sequence.next());
    }
  }

  @Test
  void namespacesAreSeparate() {
    try (Tollgate acme = trusting().token(EVERYWHERE).namespace("acme").build();
        Tollgate beta = trusting().token(EVERYWHERE).namespace("beta").build();
        Tollgate fallback = trusting().token(EVERYWHERE).build();
        Tollgate device = backend().build()) {
      assertEquals(1, acme.sequence("order").next());
      assertEquals(1, beta.sequence("order").next());
      assertEquals(1, fallback.sequence("order").next());
      assertEquals(2, device.sequence("order").next());
      Permit permit = acme.pool("shared").admit("d", "t").granted().orElseThrow();
      assertEquals(1, device.pool("shared").status().usage().inUse());
      assertEquals(0, beta.pool("shared").status().usage().inUse());
      assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    }
  }

  @Test
  void namespaceOfAnotherIsRefused() {
    refused(backend().namespace("beta"), Status.Code.PERMISSION_DENIED, "NAMESPACE_NOT_PERMITTED");
    refused(
        trusting().token(EVERYWHERE).namespace("Not A Name"),
        Status.Code.INVALID_ARGUMENT,
        "NAMESPACE_MALFORMED");
  }

  @Test
  void waitsAndWatchesSendTheNamespace() {
    try (Tollgate tollgate = trusting().token(EVERYWHERE).namespace("waits").build();
        Watch<PoolEvent> watch = tollgate.pool("p").watch("0")) {
      AdmitOptions waiting = AdmitOptions.defaults().withMaxWait(java.time.Duration.ofSeconds(20));
      Permit permit = tollgate.pool("p").admit("d", "t", waiting).granted().orElseThrow();
      assertEquals(permit.token(), watch.next().token());
    }
  }
}
