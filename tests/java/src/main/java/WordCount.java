import java.util.Arrays;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.io.TextIO;
import org.apache.beam.sdk.options.Description;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.Validation;
import org.apache.beam.sdk.transforms.Count;
import org.apache.beam.sdk.transforms.Filter;
import org.apache.beam.sdk.transforms.FlatMapElements;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.values.TypeDescriptors;

/** Counts the words of text files, as a Java user's program does. */
public class WordCount {
  /** What is read and written. */
  public interface Options extends PipelineOptions {
    @Description("Pattern of the files whose words are counted")
    @Validation.Required
    String getInput();

    void setInput(String value);

    @Description("Prefix of the files that are written")
    @Validation.Required
    String getOutput();

    void setOutput(String value);
  }

  public static void main(String[] arguments) {
    Options options =
        PipelineOptionsFactory.fromArgs(arguments).withValidation().as(Options.class);
    Pipeline pipeline = Pipeline.create(options);
    pipeline
        .apply("Read", TextIO.read().from(options.getInput()))
        .apply(
            "Split",
            FlatMapElements.into(TypeDescriptors.strings())
                .via(line -> Arrays.asList(line.split("[^\\p{L}]+"))))
        .apply("Drop", Filter.by(word -> !word.isEmpty()))
        .apply("Count", Count.perElement())
        .apply(
            "Format",
            MapElements.into(TypeDescriptors.strings())
                .via(count -> count.getKey() + ": " + count.getValue()))
        .apply("Write", TextIO.write().to(options.getOutput()));
    pipeline.run().waitUntilFinish();
  }
}
