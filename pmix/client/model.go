package client

import (
	"context"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Model is a programming model at work in a process. Several can be: a program may use OpenSHMEM and MPI together.
type Model struct {
	Programming string // "OpenSHMEM", "MPI", ...
	Library     string // its implementation: "goshmem", "OpenMPI", ...
	Version     string
	Threads     string // the threading model: "NONE", "PTHREAD", "GOROUTINE", ...
}

// DeclareModel makes a model known to all layers of this process that want to know, now or later: it raises
// wire.StatusModelDeclared. Nothing of it leaves the process.
//
//   - Source: PMIx Standard 4.1, section 17.1; paper failure-detection-propagation, Figure 16.
func (c *Client) DeclareModel(ctx context.Context, m Model) error {
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
	return c.Notify(ctx, ev)
}

// HandleModels calls fn for every model of this process, whether it is declared before or after.
func (c *Client) HandleModels(ctx context.Context, name string, fn func(Model)) (HandlerID, error) {
	opts := HandlerOptions{Name: name, Range: wire.RangeProcLocal}
	return c.RegisterHandler(ctx, []wire.Status{wire.StatusModelDeclared}, opts, func(ev *Event) Result {
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
