// Kubernetes API of fabric8's mock server, which stores objects and answers watches.

import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.kubernetes.client.utils.Serialization;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import io.fabric8.mockwebserver.http.Buffer;
import io.fabric8.mockwebserver.http.MockResponse;
import io.fabric8.mockwebserver.http.RecordedRequest;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.logging.Level;
import java.util.logging.Logger;

public class ApiServer {
  // Gives new pods the phase Pending, as a real API server does.
  static class Dispatcher extends KubernetesCrudDispatcher {
    @Override
    public MockResponse handleCreate(RecordedRequest request) {
      if (!request.getPath().endsWith("/pods")) {
        return super.handleCreate(request);
      }
      Pod pod = Serialization.unmarshal(request.getUtf8Body(), Pod.class);
      Pod pending = new PodBuilder(pod).withNewStatus().withPhase("Pending").endStatus().build();
      byte[] body = Serialization.asJson(pending).getBytes(StandardCharsets.UTF_8);
      return super.handleCreate(
          new RecordedRequest(
              request.getHttpVersion(),
              request.method(),
              request.getPath(),
              request.getHeaders(),
              new Buffer(body)));
    }
  }

  // Prints the port, and serves until standard input ends.
  public static void main(String[] arguments) throws Exception {
    Logger.getLogger("").setLevel(Level.WARNING);
    KubernetesMockServer server =
        new KubernetesMockServer(
            new Context(), new MockWebServer(), new HashMap<>(), new Dispatcher(), false);
    server.init(InetAddress.getByName("127.0.0.1"), 0);
    System.out.println(server.getPort());
    while (System.in.read() >= 0) {}
    server.destroy();
    System.exit(0);
  }
}
