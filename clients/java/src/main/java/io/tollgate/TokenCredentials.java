package io.tollgate;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Adds the token of the caller to each call. */
final class TokenCredentials extends CallCredentials {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Supplier<String> token;

  TokenCredentials(Supplier<String> token) {
    this.token = token;
  }

  @Override
  public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
    executor.execute(
        () -> {
          try {
            Metadata headers = new Metadata();
            headers.put(AUTHORIZATION, "Bearer " + printable(token.get()));
            applier.apply(headers);
          } catch (RuntimeException failure) {
            String text = "the token cannot be read: " + failure.getMessage();
            applier.fail(Status.UNAUTHENTICATED.withDescription(text).withCause(failure));
          }
        });
  }

  private static String printable(String token) {
    if (!Headers.isPrintable(token)) {
      throw new IllegalStateException(Headers.EXPECTED);
    }
    return token;
  }

  /** Reads a token from a file, and again when the file has changed. */
  static final class FileToken implements Supplier<String> {
    private record Version(Object modified, long size, Object key) {}

    private final Path path;
    private Version version;
    private String token;

    FileToken(Path path) {
      this.path = path;
    }

    @Override
    public synchronized String get() {
      try {
        var attributes = Files.readAttributes(path, BasicFileAttributes.class);
        Version now =
            new Version(attributes.lastModifiedTime(), attributes.size(), attributes.fileKey());
        if (!now.equals(version)) {
          token = Files.readString(path).strip();
          version = now;
        }
        return token;
      } catch (IOException failure) {
        throw new java.io.UncheckedIOException(failure);
      }
    }
  }
}
