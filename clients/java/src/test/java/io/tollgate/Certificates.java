package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/** An authority and its certificates, as PEM files in a folder. */
final class Certificates {
  private static final String PASSWORD = "changeit";

  private final Path folder;

  /** Creates the authority {@code ca} in an empty folder. */
  Certificates(Path folder) throws Exception {
    this.folder = folder;
    generate("ca", "-ext", "bc:c", "-ext", "ku:c=keyCertSign");
  }

  /** Creates a key, and its certificate with these extensions in the notation of keytool. */
  void issue(String name, String... extensions) throws Exception {
    List<String> options = new ArrayList<>(List.of("-signer", "ca"));
    for (String extension : extensions) {
      options.addAll(List.of("-ext", extension));
    }
    generate(name, options.toArray(String[]::new));
  }

  Path authority() {
    return certificate("ca");
  }

  Path certificate(String name) {
    return folder.resolve(name + ".crt");
  }

  Path key(String name) {
    return folder.resolve(name + ".key");
  }

  private void generate(String name, String... more) throws Exception {
    Path store = folder.resolve("store.p12");
    String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
    List<String> command = new ArrayList<>(List.of(keytool, "-genkeypair", "-alias", name));
    command.addAll(List.of("-dname", "CN=" + name, "-keyalg", "RSA", "-keysize", "2048"));
    command.addAll(List.of("-storetype", "PKCS12", "-storepass", PASSWORD));
    command.addAll(List.of("-keystore", store.toString()));
    command.addAll(List.of(more));
    Path log = folder.resolve(name + ".log");
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    assertEquals(0, process.waitFor(), () -> command + " failed, see " + log);
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(store)) {
      keys.load(in, PASSWORD.toCharArray());
    }
    pem(certificate(name), "CERTIFICATE", keys.getCertificate(name).getEncoded());
    pem(key(name), "PRIVATE KEY", keys.getKey(name, PASSWORD.toCharArray()).getEncoded());
  }

  private static void pem(Path file, String type, byte[] content) throws Exception {
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
    Files.writeString(
        file, "-----BEGIN " + type + "-----\n" + text + "\n-----END " + type + "-----\n");
  }
}
