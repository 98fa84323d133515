import org.apache.beam.runners.portability.PortableRunner;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.PipelineRunner;
import org.apache.beam.sdk.options.PipelineOptions;

/** Beam's PortableRunner that waits for the job's end, as its tests want of a runner. */
public class ServerRunner extends PipelineRunner<PipelineResult> {
  private final PortableRunner runner;

  private ServerRunner(PipelineOptions options) {
    runner = PortableRunner.fromOptions(options);
  }

  public static ServerRunner fromOptions(PipelineOptions options) {
    return new ServerRunner(options);
  }

  @Override
  public PipelineResult run(Pipeline pipeline) {
    PipelineResult result = runner.run(pipeline);
    PipelineResult.State end = result.waitUntilFinish();
    if (end != PipelineResult.State.DONE) {
      throw new IllegalStateException("the job ended as " + end);
    }
    return result;
  }
}
