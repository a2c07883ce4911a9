package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Events registers handlers for events and raises events.
type Events struct {
	session  *session
	dispatch *dispatcher
}

// Event is an event as a handler gets it. Handlers share its lists and must not change them.
type Event struct {
	codec.Event
	Handler string       // name of the handler that is called
	Results []codec.Info // results of the handlers called before: the name of each with its status, then its infos
}

// Result is a handler's answer to an event. The status codec.StatusEventActionComplete ends the chain: no further
// handler is called. Otherwise the handlers that follow get Info.
type Result struct {
	Status codec.Status
	Info   []codec.Info
}

// Handler handles an event. All handlers of a client run one after the other, on a goroutine of the client; they may
// call the client.
type Handler func(ev *Event) Result

// HandlerID names a registered handler.
type HandlerID uint64

// HandlerOptions direct the registration of a handler.
type HandlerOptions struct {
	Name   string // the name by which other handlers refer to this one
	Order  Order
	Beside string // name of the handler that OrderBefore and OrderAfter refer to
	// Affected restricts the handler to events about these processes, and to events that name no process. A wildcard
	// rank stands for all of a namespace.
	Affected []codec.Proc
	// Range restricts the handler to events from some processes:
	//
	//   - RangeProcLocal: from this process; the server is not told of the handler
	//   - RangeCustom: from Sources
	//   - RangeNamespace: from the namespaces of Sources; without Sources, from this namespace
	//   - all others: from any process
	Range   codec.Range
	Sources []codec.Proc
	OneShot bool // the handler is called at most once
	Fresh   bool // the handler gets no event that came before it was registered
}

// resolveSources returns the processes whose events a handler gets, as its range says; nil stands for all.
func (e *Events) resolveSources(opts *HandlerOptions) ([]codec.Proc, error) {
	switch opts.Range {
	case codec.RangeUndef, codec.RangeLocal, codec.RangeSession, codec.RangeGlobal:
		return nil, nil
	case codec.RangeProcLocal:
		return []codec.Proc{e.session.proc()}, nil
	case codec.RangeNamespace:
		if len(opts.Sources) == 0 {
			return []codec.Proc{{Nspace: e.session.opts.Nspace, Rank: codec.RankWildcard}}, nil
		}
		var out []codec.Proc
		for _, p := range opts.Sources {
			out = append(out, codec.Proc{Nspace: p.Nspace, Rank: codec.RankWildcard})
		}
		return out, nil
	case codec.RangeCustom:
		if len(opts.Sources) == 0 {
			return nil, fmt.Errorf("range %d without sources, want at least one source", opts.Range)
		}
		return opts.Sources, nil
	default:
		return nil, fmt.Errorf("range %d, want one that HandlerOptions.Range lists", opts.Range)
	}
}

// Register registers a handler for events with the given codes. A handler without codes is a default handler: it gets
// all events but those with NonDefault. Events that came before go to the new handler alone, in the order in which they
// came.
//
//   - Completion: on return, the handler misses no event.
//   - Errors: a place in the chain that is taken or does not exist; those of the server.
func (e *Events) Register(ctx context.Context, codes []codec.Status, opts HandlerOptions, fn Handler) (HandlerID, error) {
	const op = "register event handler"
	sources, err := e.resolveSources(&opts)
	if err != nil {
		return 0, fmt.Errorf("pmix %s: %w", op, err)
	}
	opts.Sources = sources
	codes = slices.Clone(codes)
	slices.Sort(codes)
	if len(codes) > 0 && codes[0] == codec.StatusMaxErrConstant {
		codes = nil // this code stands for a default handler
	}
	r := &registration{codes: slices.Compact(codes), opts: opts, fn: fn, pending: true}
	release, err := e.dispatch.register.acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("pmix %s: %w", op, err)
	}
	defer release()
	if err := e.dispatch.add(r); err != nil {
		return 0, fmt.Errorf("pmix %s %q: %w", op, opts.Name, err)
	}
	if fresh := e.dispatch.countCodes(r, +1); len(fresh) > 0 {
		if err := e.session.requestStatus(ctx, op, registerRequest(fresh)); err != nil {
			e.dispatch.remove(r.id)
			e.dispatch.countCodes(r, -1)
			return 0, err
		}
	}
	e.dispatch.activate(r)
	return r.id, nil
}

// registerRequest asks the server for events; without codes, for those of a default handler.
func registerRequest(codes []codec.Status) *codec.RegisterEventsRequest {
	if codes[0] == codec.StatusMaxErrConstant {
		return &codec.RegisterEventsRequest{}
	}
	return &codec.RegisterEventsRequest{Codes: codes}
}

// Deregister ends a registration. It does not wait for a call of the handler that has begun.
//
//   - Errors: ErrNotFound; the context's; ErrLostConnection, after which the handler is gone too.
func (e *Events) Deregister(ctx context.Context, id HandlerID) error {
	const op = "deregister event handler"
	release, err := e.dispatch.register.acquire(ctx)
	if err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	defer release()
	r := e.dispatch.remove(id)
	if r == nil {
		return &StatusError{Op: op, Status: codec.StatusErrNotFound}
	}
	stale := e.dispatch.countCodes(r, -1)
	if len(stale) == 0 || e.session.isFinalized() {
		return nil
	}
	return e.session.send(ctx, op, &codec.DeregisterEventsRequest{Codes: stale})
}

// Notify raises an event. With RangeProcLocal it goes to the handlers of this process alone, otherwise through the
// server to those of other processes too. The event's source is this process.
//
//   - Completion: the server has the event; handlers run later.
//   - Errors: those of the server; a value that cannot be sent.
func (e *Events) Notify(ctx context.Context, ev codec.Event) error {
	const op = "notify event"
	ev.Source, ev.Info = e.session.proc(), ev.Pack()
	parsed, err := codec.ParseEvent(codec.Notification{Status: ev.Status, Source: ev.Source, Range: ev.Range, Info: ev.Info})
	if err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	if ev.Range != codec.RangeProcLocal {
		r := &codec.NotifyRequest{Status: ev.Status, Range: ev.Range, Info: ev.Info}
		if err := e.session.requestStatus(ctx, op, r); err != nil {
			return err
		}
	} else if e.session.isFinalized() {
		return fmt.Errorf("pmix %s: %w", op, ErrFinalized)
	}
	if includes(&parsed, ev.Source) {
		e.dispatch.enqueue(&Event{Event: parsed})
	}
	return nil
}

// includes reports whether an event is also for the process self that raised it. The server does not send it back.
func includes(ev *codec.Event, self codec.Proc) bool {
	switch ev.Range {
	case codec.RangeRM:
		return false
	case codec.RangeCustom:
		return codec.AnyMatch(ev.Targets, []codec.Proc{self})
	default:
		return true
	}
}
