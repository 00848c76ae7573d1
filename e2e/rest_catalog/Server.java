// Apache Iceberg's own REST catalog, as its tests run it, on loopback alone:  java Server PORT NAME=VALUE…
//
// What the library ships as a program listens on every address; this is the same servlet behind one of them.

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

public class Server {
  public static void main(String[] words) throws Exception {
    Map<String, String> properties = new HashMap<>();
    for (int at = 1; at < words.length; at++) {
      String[] pair = words[at].split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    var catalog = CatalogUtil.buildIcebergCatalog("fairlead", properties, new Configuration());
    var context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
    var server = new org.eclipse.jetty.server.Server(address);
    server.setHandler(context);
    server.start();
    server.join();
  }
}
