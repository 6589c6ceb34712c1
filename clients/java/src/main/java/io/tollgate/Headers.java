package io.tollgate;

/** The values that a header of HTTP/2 can carry. */
final class Headers {
  static final String EXPECTED = "expected printable ASCII characters";

  private Headers() {}

  static boolean isPrintable(String value) {
    return value.chars().allMatch(c -> c >= ' ' && c <= '~');
  }
}
