package io.tollgate.spring;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Properties of the client and of its rate limit.
 *
 * @param addresses the servers, each as host:port; default 127.0.0.1:50051
 * @param tls whether connections are encrypted; default false
 * @param ca file of the authorities, PEM; implies tls
 * @param cert file of the certificate of this client, PEM; implies tls
 * @param key file of its key, PKCS #8 PEM
 * @param serverName name that the certificate of the server must have
 * @param token the token
 * @param tokenFile file of the token; read again when it changes
 * @param namespace the namespace of all names
 * @param deadline deadline of each attempt of a call; default 1 s
 * @param rateLimit the rate limit of the web server; none without it
 */
@ConfigurationProperties("tollgate")
public record TollgateProperties(
    @DefaultValue("127.0.0.1:50051") List<String> addresses,
    @DefaultValue("false") boolean tls,
    Path ca,
    Path cert,
    Path key,
    String serverName,
    String token,
    Path tokenFile,
    String namespace,
    @DefaultValue("1s") Duration deadline,
    RateLimit rateLimit) {
  /** What happens to a request whose rate could not be checked. */
  public enum OnFailure {
    /** The answer is 503. */
    ERROR,
    /** The request passes. */
    OPEN,
    /** The answer is 429. */
    CLOSED
  }

  /**
   * The rate limit of the web server.
   *
   * @param policy the policy; required
   * @param onFailure what happens if a check fails; default ERROR
   * @param header the header whose value is the key; default: the address of the caller
   * @param ipv6Bits bits of an IPv6 address in the default key; default 64
   */
  public record RateLimit(
      String policy,
      @DefaultValue("error") OnFailure onFailure,
      String header,
      @DefaultValue("64") int ipv6Bits) {}
}
