package client

import (
	"context"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Model is a programming model that a process uses. A process can use several, such as OpenSHMEM and MPI.
type Model struct {
	Programming string // "OpenSHMEM", "MPI", ...
	Library     string // the implementation: "goshmem", "OpenMPI", ...
	Version     string // of the library
	Threads     string // the threading model: "NONE", "PTHREAD", "GOROUTINE", ...
}

// DeclareModel raises codec.StatusModelDeclared in this process: all layers that handle models, now or later, learn of
// m. The server and other processes do not.
//
//   - Source: PMIx Standard 4.1, section 17.1; paper failure-detection-propagation, Figure 16.
func (e *Events) DeclareModel(ctx context.Context, m Model) error {
	ev := codec.Event{Status: codec.StatusModelDeclared, Range: codec.RangeProcLocal, NonDefault: true}
	for _, kv := range []struct{ key, value string }{
		{codec.KeyProgrammingModel, m.Programming},
		{codec.KeyModelLibraryName, m.Library},
		{codec.KeyModelLibraryVersion, m.Version},
		{codec.KeyThreadingModel, m.Threads},
	} {
		if kv.value != "" {
			ev.Info = append(ev.Info, codec.Info{Key: kv.key, Value: codec.StringValue(kv.value)})
		}
	}
	return e.Notify(ctx, ev)
}

// HandleModels calls fn for every model of this process, whether it was declared before or is declared later.
func (e *Events) HandleModels(ctx context.Context, name string, fn func(Model)) (HandlerID, error) {
	opts := HandlerOptions{Name: name, Range: codec.RangeProcLocal}
	return e.Register(ctx, []codec.Status{codec.StatusModelDeclared}, opts, func(ev *Event) Result {
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
		Programming: text(codec.KeyProgrammingModel), Library: text(codec.KeyModelLibraryName),
		Version: text(codec.KeyModelLibraryVersion), Threads: text(codec.KeyThreadingModel),
	}
}
