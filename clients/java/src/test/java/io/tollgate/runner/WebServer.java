package io.tollgate.runner;

import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.io.Serial;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/** A web server with one filter, which answers "ok" on a free port of 127.0.0.1. */
public final class WebServer implements AutoCloseable {
  private static final class Ok extends HttpServlet {
    @Serial private static final long serialVersionUID = 1L;

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      response.setContentType("text/plain");
      response.getWriter().print("ok");
    }
  }

  private final Tomcat tomcat;

  private WebServer(Tomcat tomcat) {
    this.tomcat = tomcat;
  }

  /** Starts a server. */
  public static WebServer start(Filter filter) throws IOException, LifecycleException {
    // Not in the folder of temporary files: a killed process would leave it there.
    File folder = Files.createDirectories(Path.of("target", "tomcat").toAbsolutePath()).toFile();
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(folder.getPath());
    Connector connector = new Connector();
    connector.setPort(0);
    connector.setProperty("address", "127.0.0.1");
    tomcat.setConnector(connector);
    Context context = tomcat.addContext("", folder.getPath());
    Tomcat.addServlet(context, "ok", new Ok());
    context.addServletMappingDecoded("/*", "ok");
    FilterDef definition = new FilterDef();
    definition.setFilterName("filter");
    definition.setFilter(filter);
    context.addFilterDef(definition);
    FilterMap map = new FilterMap();
    map.setFilterName("filter");
    map.addURLPattern("/*");
    context.addFilterMap(map);
    tomcat.start();
    return new WebServer(tomcat);
  }

  /** Returns the address of the server. */
  public String url() {
    return "http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/";
  }

  @Override
  public void close() throws LifecycleException {
    tomcat.stop();
    tomcat.destroy();
  }
}
