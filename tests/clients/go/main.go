// Command client runs pipelines of Beam's own integration tests that every version of its Go SDK has had for long.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/apache/beam/sdks/v2/go/test/integration/primitives"
)

// build makes a pipeline of a function that needs a scope only.
func build(steps func(beam.Scope)) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	steps(s)
	return p
}

func main() {
	flag.Parse()
	beam.Init()
	pipelines := []*beam.Pipeline{
		build(primitives.CoGBK),
		primitives.ParDoMultiMapSideInput(),
		build(primitives.WindowSums_Lifted),
		build(primitives.ValueStateParDo),
		build(primitives.BagStateParDo),
		build(primitives.TimersEventTimeBounded),
	}
	for number, pipeline := range pipelines {
		if _, err := beam.Run(context.Background(), "universal", pipeline); err != nil {
			fmt.Fprintf(os.Stderr, "pipeline %d: %v\n", number, err)
			os.Exit(1)
		}
	}
	fmt.Println("ALL RIGHT")
}
