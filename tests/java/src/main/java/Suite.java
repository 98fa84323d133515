import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.beam.sdk.testing.UsesExternalService;
import org.apache.beam.sdk.testing.UsesMultimapState;
import org.apache.beam.sdk.testing.UsesSdkHarnessEnvironment;
import org.apache.beam.sdk.testing.ValidatesRunner;
import org.junit.experimental.categories.Categories.CategoryFilter;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs those tests of a class that Beam has for runners, and prints a line for each: its outcome and
 * its name, and below a failure its trace.
 *
 * <p>Arguments: a class, and names of single tests if not all are wanted.
 */
public class Suite {
  private static final class Lines extends RunListener {
    private final Set<Description> failed = new HashSet<>();
    private long begun;

    @Override
    public void testStarted(Description test) {
      begun = System.nanoTime();
    }

    @Override
    public void testFailure(Failure failure) {
      failed.add(failure.getDescription());
      say("failed", failure.getDescription());
      System.out.println(failure.getTrace());
    }

    @Override
    public void testFinished(Description test) {
      if (!failed.contains(test)) {
        say("passed", test);
      }
    }

    @Override
    public void testIgnored(Description test) {
      say("ignored", test);
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
      failed.add(failure.getDescription());
      say("ignored", failure.getDescription());
    }

    private void say(String outcome, Description test) {
      System.out.printf(
          "%s %s.%s %d ms%n",
          outcome, test.getClassName(), test.getMethodName(), (System.nanoTime() - begun) / 1_000_000);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Set<Class<?>> without =
        Set.of(
            UsesExternalService.class, UsesSdkHarnessEnvironment.class, UsesMultimapState.class);
    JUnitCore core = new JUnitCore();
    core.addListener(new Lines());
    Request request = Request.aClass(Class.forName(arguments[0]));
    request =
        request.filterWith(
            CategoryFilter.categoryFilter(true, Set.of(ValidatesRunner.class), true, without));
    core.run(request);
    System.exit(0);
  }
}
