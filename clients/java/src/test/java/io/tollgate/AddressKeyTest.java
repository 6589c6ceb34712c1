package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.tollgate.servlet.RateLimitKey;
import jakarta.servlet.http.HttpServletRequest;
import java.lang.reflect.Proxy;
import org.junit.jupiter.api.Test;

class AddressKeyTest {
  @Test
  void defaultKeyIsTheNetworkOfTheCaller() {
    HttpServletRequest request = from("2001:db8:1:2:0:0:0:7");
    assertEquals("ip:2001:db8:1:2::/64", RateLimitKey.address().of(request));
    assertEquals("ip:2001:db8:1::/48", RateLimitKey.address(48).of(request));
    assertEquals("ip:192.0.2.7", RateLimitKey.address().of(from("0:0:0:0:0:ffff:c000:207")));
    assertEquals("ip:192.0.2.7", RateLimitKey.address().of(from("192.0.2.7")));
  }

  @Test
  void textsAreShort() {
    assertEquals("ip:1::2:0:0:3", AddressKey.of("1:0:0:0:2:0:0:3", 128));
    assertEquals("ip:1:0:2:3:4:5:6:7", AddressKey.of("1:0:2:3:4:5:6:7", 128));
    assertEquals("ip:::", AddressKey.of("::", 128));
    assertEquals("ip:1:2:3", AddressKey.of("1:2:3"));
    assertThrows(IllegalArgumentException.class, () -> AddressKey.of("::1", 0));
  }

  @Test
  void linesOfManyPoliciesAreBounded() {
    CheckLog log = new CheckLog();
    int logged = 0;
    for (int policy = 0; policy < 3 * CheckLog.KINDS_MAX; policy++) {
      logged += log.due("p-" + policy, "passes", 0) >= 0 ? 1 : 0;
    }
    assertEquals(CheckLog.KINDS_MAX + 1, logged);
    assertEquals(2 * CheckLog.KINDS_MAX - 1, log.due("other", "passes", 10_000_000_000L));
  }

  private static HttpServletRequest from(String address) {
    return (HttpServletRequest)
        Proxy.newProxyInstance(
            AddressKeyTest.class.getClassLoader(),
            new Class<?>[] {HttpServletRequest.class},
            (proxy, method, arguments) ->
                method.getName().equals("getRemoteAddr") ? address : null);
  }
}
