package io.tollgate;

/** Conversion of enums of the contract, by name. */
final class Enums {
  private Enums() {}

  /**
   * Returns the value whose name is that of {@code value} without {@code prefix}. Fails with
   * INTERNAL for a value that this version does not know.
   */
  static <E extends Enum<E>> E of(Class<E> type, String prefix, Enum<?> value) {
    try {
      return Enum.valueOf(
          type, value.name().substring(Math.min(prefix.length(), value.name().length())));
    } catch (IllegalArgumentException unknown) {
      throw TollgateException.unknownAnswer(value);
    }
  }

  /** Returns the value as {@link #of(Class, String, Enum)} does, or {@code other} if unknown. */
  static <E extends Enum<E>> E of(Class<E> type, String prefix, Enum<?> value, E other) {
    try {
      return of(type, prefix, value);
    } catch (TollgateException unknown) {
      return other;
    }
  }
}
