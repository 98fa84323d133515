import java.util.HashMap;
import java.util.Map;
import org.apache.beam.fn.harness.FnHarness;
import org.apache.beam.model.fnexecution.v1.ProvisionApi.GetProvisionInfoRequest;
import org.apache.beam.model.fnexecution.v1.ProvisionApi.ProvisionInfo;
import org.apache.beam.model.fnexecution.v1.ProvisionServiceGrpc;
import org.apache.beam.vendor.grpc.v1p69p0.com.google.protobuf.util.JsonFormat;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ManagedChannel;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ManagedChannelBuilder;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.Metadata;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.stub.MetadataUtils;

/**
 * Becomes an SDK harness in a PROCESS environment: asks the provision service for all that the
 * harness of the class path has to know. Staged files are not fetched: the class path has them.
 *
 * <p>Arguments: {@code --id=...} and {@code --provision_endpoint=...}, as Beam's containers get them.
 */
public class Boot {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> given = new HashMap<>();
    for (String argument : arguments) {
      String[] parts = argument.split("=", 2);
      given.put(parts[0], parts[1]);
    }
    String id = given.get("--id");
    ProvisionInfo info = ask(given.get("--provision_endpoint"), id);
    Map<String, String> variables = new HashMap<>();
    variables.put("HARNESS_ID", id);
    variables.put("PIPELINE_OPTIONS", JsonFormat.printer().print(info.getPipelineOptions()));
    variables.put("LOGGING_API_SERVICE_DESCRIPTOR", info.getLoggingEndpoint().toString());
    variables.put("CONTROL_API_SERVICE_DESCRIPTOR", info.getControlEndpoint().toString());
    variables.put("RUNNER_CAPABILITIES", String.join(" ", info.getRunnerCapabilitiesList()));
    FnHarness.main(variables::get);
    System.exit(0);
  }

  private static ProvisionInfo ask(String endpoint, String id) {
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("worker_id", Metadata.ASCII_STRING_MARSHALLER), id);
    ManagedChannel channel = ManagedChannelBuilder.forTarget(endpoint).usePlaintext().build();
    try {
      return ProvisionServiceGrpc.newBlockingStub(channel)
          .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
          .getProvisionInfo(GetProvisionInfoRequest.getDefaultInstance())
          .getInfo();
    } finally {
      channel.shutdownNow();
    }
  }
}
