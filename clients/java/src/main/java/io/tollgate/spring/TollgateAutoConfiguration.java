package io.tollgate.spring;

import io.tollgate.RateLimiter;
import io.tollgate.Tollgate;
import io.tollgate.TollgateBuilder;
import io.tollgate.servlet.RateLimitFilter;
import io.tollgate.servlet.RateLimitKey;
import jakarta.servlet.http.HttpFilter;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Provides a {@link Tollgate} from the properties {@code tollgate.*}. With {@code
 * tollgate.rate-limit.policy} it also limits the requests of the web server; a bean of type {@link
 * RateLimitKey} names their callers.
 */
@AutoConfiguration
@EnableConfigurationProperties(TollgateProperties.class)
public class TollgateAutoConfiguration {
  /** Returns the client, which is closed with the application. */
  @Bean(destroyMethod = "close")
  @ConditionalOnMissingBean
  public Tollgate tollgate(TollgateProperties properties) {
    TollgateBuilder builder =
        Tollgate.builder()
            .addresses(properties.addresses().toArray(String[]::new))
            .deadline(properties.deadline());
    if (properties.ca() != null) {
      builder.tls(properties.ca());
    } else if (properties.tls()) {
      builder.tls();
    }
    if (properties.cert() != null) {
      builder.certificate(properties.cert(), properties.key());
    }
    if (properties.serverName() != null) {
      builder.serverName(properties.serverName());
    }
    if (properties.tokenFile() != null) {
      builder.tokenFile(properties.tokenFile());
    } else if (properties.token() != null) {
      builder.token(properties.token());
    }
    if (properties.namespace() != null) {
      builder.namespace(properties.namespace());
    }
    return builder.build();
  }

  /** Rate limit of a web server with servlets. */
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(HttpFilter.class)
  @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
  @ConditionalOnProperty("tollgate.rate-limit.policy")
  public static class WebRateLimit {
    /** Returns the filter of all requests. */
    @Bean
    @ConditionalOnMissingBean
    public RateLimitFilter tollgateRateLimitFilter(
        Tollgate tollgate, TollgateProperties properties, ObjectProvider<RateLimitKey> keys) {
      TollgateProperties.RateLimit limit = properties.rateLimit();
      RateLimiter limiter = tollgate.limiter(limit.policy());
      RateLimitKey fallback =
          limit.header() == null
              ? RateLimitKey.address(limit.ipv6Bits())
              : RateLimitKey.header(limit.header());
      RateLimitKey key = keys.getIfAvailable(() -> fallback);
      return new RateLimitFilter(
          switch (limit.onFailure()) {
            case OPEN -> limiter.failOpen();
            case CLOSED -> limiter.failClosed();
            case ERROR -> limiter;
          },
          key);
    }
  }
}
