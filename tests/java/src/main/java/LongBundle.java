import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.transforms.Count;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.ParDo;

/** Elements that take so long that the bundle is split while it runs; fails unless all arrive. */
public class LongBundle {
  private static final int ELEMENTS = 2000;
  private static final int MILLISECONDS_EACH = 3;

  private static class Linger extends DoFn<Integer, Integer> {
    @ProcessElement
    public void process(@Element Integer element, OutputReceiver<Integer> out)
        throws InterruptedException {
      Thread.sleep(MILLISECONDS_EACH);
      out.output(element);
    }
  }

  private static class Check extends DoFn<Long, Void> {
    @ProcessElement
    public void process(@Element Long count) {
      if (count != ELEMENTS) {
        throw new AssertionError(count + " of " + ELEMENTS + " elements arrived");
      }
    }
  }

  public static void main(String[] arguments) {
    Pipeline pipeline = Pipeline.create(PipelineOptionsFactory.fromArgs(arguments).create());
    pipeline
        .apply(Create.of(IntStream.range(0, ELEMENTS).boxed().collect(Collectors.toList())))
        .apply(ParDo.of(new Linger()))
        .apply(Count.globally())
        .apply(ParDo.of(new Check()));
    pipeline.run().waitUntilFinish();
  }
}
