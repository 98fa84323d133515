// Command pipelines runs one of the pipelines of Beam's own integration tests, by the name of its test.
//
// One program has those of several of Beam's packages, of two SDKs in one job, too, and is built once.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sort"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/apache/beam/sdks/v2/go/test/integration/primitives"
	"github.com/apache/beam/sdks/v2/go/test/integration/transforms/xlang/dataframe"
)

var (
	name      = flag.String("pipeline", "", "name of the test whose pipeline is to run; empty lists them")
	expansion = flag.String("expansion", "", "address of Python's expansion service")
)

// build makes a pipeline of a function that needs a scope only.
func build(steps func(beam.Scope)) func() *beam.Pipeline {
	return func() *beam.Pipeline {
		p, s := beam.NewPipelineWithRoot()
		steps(s)
		return p
	}
}

var pipelines = map[string]func() *beam.Pipeline{
	"TestCheckpointing":                 build(primitives.Checkpoints),
	"TestCoGBK":                         build(primitives.CoGBK),
	"TestReshuffle":                     build(primitives.Reshuffle),
	"TestReshuffleKV":                   build(primitives.ReshuffleKV),
	"TestFlatten":                       build(primitives.Flatten),
	"TestFlattenDup":                    build(primitives.FlattenDup),
	"TestParDoMultiOutput":              primitives.ParDoMultiOutput,
	"TestParDoSideInput":                primitives.ParDoSideInput,
	"TestParDoKVSideInput":              primitives.ParDoKVSideInput,
	"TestParDoMultiMapSideInput":        primitives.ParDoMultiMapSideInput,
	"TestValueState":                    build(primitives.ValueStateParDo),
	"TestValueStateWindowed":            build(primitives.ValueStateParDoWindowed),
	"TestBagState":                      build(primitives.BagStateParDo),
	"TestCombiningState":                build(primitives.CombiningStateParDo),
	"TestMapState":                      build(primitives.MapStateParDo),
	"TestMapStateClear":                 build(primitives.MapStateParDoClear),
	"TestSetState":                      build(primitives.SetStateParDo),
	"TestSetStateClear":                 build(primitives.SetStateParDoClear),
	"TestOrderedListState":              build(primitives.OrderedListStateParDo),
	"TestTimers_EventTime_Bounded":      build(primitives.TimersEventTimeBounded),
	"TestTimers_EventTime_Unbounded":    build(primitives.TimersEventTimeUnbounded),
	"TestTimers_ProcessingTime_Bounded": build(primitives.TimersProcessingTime_Bounded),
	"TestTestStreamStrings":             build(primitives.TestStreamStrings),
	"TestTestStreamToGBK":               build(primitives.TestStreamToGBK),
	"TestTestStreamTimersEventTime":     build(primitives.TestStreamTimersEventTime),
	"TestPanes":                         build(primitives.Panes),
	"TestWindowSums_Lifted":             build(primitives.WindowSums_Lifted),
	"TestWindowSums_GBK":                build(primitives.WindowSums_GBK),
	"TestValidateWindowedSideInputs":    build(primitives.ValidateWindowedSideInputs),
	"TestTriggerAfterEndOfWindow":       build(primitives.TriggerAfterEndOfWindow),
	"TestTriggerOrFinally":              build(primitives.TriggerOrFinally),
	"TestDataframe": func() *beam.Pipeline {
		return dataframe.DataframeTransform(*expansion)
	},
}

func main() {
	flag.Parse()
	beam.Init()
	make, known := pipelines[*name]
	if !known {
		names := []string{}
		for name := range pipelines {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Println(name)
		}
		return
	}
	if _, err := beam.Run(context.Background(), "universal", make()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
