package io.tollgate;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** A real server on a free port of 127.0.0.1. */
final class TestServer implements AutoCloseable {
  private static final String CONFIG =
      """
      [[policy]]
      name = "three"
      limit = [{ max = 3, window = "1h" }]

      [[policy]]
      name = "tiers"
      limit = [{ name = "hour", max = 5, window = "1h", algorithm = "FIXED_WINDOW" }]
      tier = [{ above = 1, action = "WARN" }]

      [[sequence]]
      match = "day:*"
      layout = "ORD-{yyyyMMdd}-{n:06}"
      """;

  private final int port;
  private final List<String> arguments;
  private Process process;

  private TestServer(int port, List<String> arguments) {
    this.port = port;
    this.arguments = arguments;
  }

  static TestServer start(String... more) throws IOException {
    return configured("", more);
  }

  /** Starts a server with further entries of its configuration. */
  static TestServer configured(String entries, String... more) throws IOException {
    Path config = Files.createTempFile("tollgate", ".toml");
    config.toFile().deleteOnExit();
    Files.writeString(config, CONFIG + entries);
    List<String> arguments = new ArrayList<>(List.of("--config", config.toString()));
    arguments.addAll(List.of(more));
    TestServer server = new TestServer(freePort(), arguments);
    server.run();
    return server;
  }

  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  /** Sleeps between two looks at a condition, so that other processes get the cores. */
  static void pause() {
    LockSupport.parkNanos(2_000_000);
  }

  /** Waits until a port of 127.0.0.1 accepts connections. */
  static void awaitPort(int port, Process process) throws IOException {
    while (true) {
      try {
        new Socket(InetAddress.getLoopbackAddress(), port).close();
        return;
      } catch (IOException refused) {
        if (!process.isAlive()) {
          throw new IOException("the process ended with " + process.exitValue(), refused);
        }
        TestServer.pause();
      }
    }
  }

  private static String binary() {
    String given = System.getenv("TOLLGATE_BINARY");
    String path = given == null ? "../../target/debug/tollgate" : given;
    if (!new File(path).canExecute()) {
      throw new IllegalStateException("no server at " + path + "; set TOLLGATE_BINARY");
    }
    return path;
  }

  void run() throws IOException {
    List<String> command =
        new ArrayList<>(List.of(binary(), "serve", "--listen", address(), "--admin", "off"));
    command.addAll(arguments);
    process =
        new ProcessBuilder(command)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    awaitPort(port, process);
  }

  void kill() {
    process.destroyForcibly();
    process.onExit().join();
  }

  String address() {
    return "127.0.0.1:" + port;
  }

  Tollgate connect() {
    return Tollgate.connect(address());
  }

  @Override
  public void close() {
    kill();
  }
}
