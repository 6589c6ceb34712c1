import io.tollgate.Tollgate;
import io.tollgate.spring.TollgateAutoConfiguration;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/**
 * Web service with a rate limit for each caller. The policy is one of the server's configuration.
 *
 * <pre>
 * --tollgate.addresses=127.0.0.1:50051
 * --tollgate.rate-limit.policy=web
 * --tollgate.rate-limit.header=x-caller
 * --tollgate.rate-limit.on-failure=open
 * </pre>
 */
@EnableAutoConfiguration
@RestController
public class WebService {
  private final Tollgate tollgate;

  /** {@link TollgateAutoConfiguration} provides the client. */
  WebService(Tollgate tollgate) {
    this.tollgate = tollgate;
  }

  public static void main(String[] arguments) {
    SpringApplication.run(WebService.class, arguments);
  }

  /** Answers with an order number that never repeats. */
  @GetMapping("/order")
  String order() {
    return "order " + tollgate.sequence("order").next() + "\n";
  }
}
