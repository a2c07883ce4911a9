package client

import (
	"context"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Model is a programming model that a process uses. A process can use several, such as OpenSHMEM and MPI.
type Model struct {
	Programming string // "OpenSHMEM", "MPI", ...
	Library     string // the implementation: "goshmem", "OpenMPI", ...
	Version     string // of the library
	Threads     string // the threading model: "NONE", "PTHREAD", "GOROUTINE", ...
}

// DeclareModel raises wire.StatusModelDeclared in this process: all layers that handle models, now or later, learn of m.
// The server and other processes do not.
//
//   - Source: PMIx Standard 4.1, section 17.1; paper failure-detection-propagation, Figure 16.
func (e *Events) DeclareModel(ctx context.Context, m Model) error {
	ev := wire.Event{Status: wire.StatusModelDeclared, Range: wire.RangeProcLocal, NonDefault: true}
	for _, kv := range []struct{ key, value string }{
		{wire.KeyProgrammingModel, m.Programming},
		{wire.KeyModelLibraryName, m.Library},
		{wire.KeyModelLibraryVersion, m.Version},
		{wire.KeyThreadingModel, m.Threads},
	} {
		if kv.value != "" {
			ev.Info = append(ev.Info, wire.Info{Key: kv.key, Value: wire.StringValue(kv.value)})
		}
	}
	return e.Notify(ctx, ev)
}

// HandleModels calls fn for every model of this process, whether it was declared before or is declared later.
func (e *Events) HandleModels(ctx context.Context, name string, fn func(Model)) (HandlerID, error) {
	opts := HandlerOptions{Name: name, Range: wire.RangeProcLocal}
	return e.Register(ctx, []wire.Status{wire.StatusModelDeclared}, opts, func(ev *Event) Result {
		fn(modelOf(ev))
		return Result{}
	})
}

func modelOf(ev *Event) Model {
	text := func(key string) string {
		v, _ := ev.Has(key)
		s, _ := v.Str()
		return s
	}
	return Model{
		Programming: text(wire.KeyProgrammingModel), Library: text(wire.KeyModelLibraryName),
		Version: text(wire.KeyModelLibraryVersion), Threads: text(wire.KeyThreadingModel),
	}
}
