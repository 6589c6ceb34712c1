package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

class SpringTest {
  /** A web service that names only Spring. */
  @EnableAutoConfiguration
  @RestController
  static class Service {
    @GetMapping("/hello")
    String hello() {
      return "hello";
    }
  }

  @Test
  void propertiesConfigureClientAndRateLimit() throws Exception {
    try (TestServer server = TestServer.start();
        ConfigurableApplicationContext context =
            SpringApplication.run(
                Service.class,
                "--server.port=0",
                "--server.tomcat.basedir=target/tomcat",
                "--server.address=127.0.0.1",
                "--spring.main.banner-mode=off",
                "--tollgate.addresses=" + server.address(),
                "--tollgate.rate-limit.policy=three",
                "--tollgate.rate-limit.header=x-caller")) {
      assertEquals(1, context.getBean(Tollgate.class).sequence("spring").next());
      String port = context.getEnvironment().getProperty("local.server.port");
      HttpRequest request =
          HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/hello"))
              .header("x-caller", "me")
              .build();
      HttpClient client = HttpClient.newHttpClient();
      for (int call = 0; call < 3; call++) {
        var passed = client.send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals("hello", passed.body());
        assertTrue(passed.headers().firstValue("RateLimit").isPresent());
      }
      var refused = client.send(request, HttpResponse.BodyHandlers.ofString());
      assertEquals(429, refused.statusCode());
    }
  }
}
