package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Event is an event as a handler gets it. Handlers share its lists and must not change them.
type Event struct {
	wire.Event
	Handler string      // name of the handler that is called
	Results []wire.Info // of the handlers called before: the name of each with its status, followed by its infos
}

// Result is what a handler made of an event. A status of wire.StatusEventActionComplete ends the chain: no further
// handler is called. Info is passed on to those that are.
type Result struct {
	Status wire.Status
	Info   []wire.Info
}

// Handler takes an event. All handlers of a client run one after the other, on a goroutine of the client's; they may call
// the client.
type Handler func(ev *Event) Result

// HandlerID names a registered handler.
type HandlerID uint64

// HandlerOptions direct the registration of a handler.
type HandlerOptions struct {
	Name   string // for the orders and results of others
	Order  Order
	Beside string // which handler OrderBefore and OrderAfter refer to
	// Affected restricts the handler to events about these processes, and those that do not say whom they are about. A
	// wildcard rank stands for all of a namespace.
	Affected []wire.Proc
	// Range restricts the handler to events from some processes: from this one (RangeProcLocal; the server does not hear
	// of such a handler), from Sources (RangeCustom), from this namespace or those of Sources (RangeNamespace), from
	// anybody (all others).
	Range   wire.Range
	Sources []wire.Proc
	OneShot bool // the handler is called once at most
	Fresh   bool // the handler gets no event that this process had before
}

// sources resolves the range of a handler to the processes whose events it gets; nil stands for all.
func (c *Client) sources(opts *HandlerOptions) ([]wire.Proc, error) {
	switch opts.Range {
	case wire.RangeUndef, wire.RangeLocal, wire.RangeSession, wire.RangeGlobal:
		return nil, nil
	case wire.RangeProcLocal:
		return []wire.Proc{c.Proc()}, nil
	case wire.RangeNamespace:
		if len(opts.Sources) == 0 {
			return []wire.Proc{{Nspace: c.Nspace(), Rank: wire.RankWildcard}}, nil
		}
		var out []wire.Proc
		for _, p := range opts.Sources {
			out = append(out, wire.Proc{Nspace: p.Nspace, Rank: wire.RankWildcard})
		}
		return out, nil
	case wire.RangeCustom:
		if len(opts.Sources) == 0 {
			return nil, fmt.Errorf("range %d without sources, want some", opts.Range)
		}
		return opts.Sources, nil
	default:
		return nil, fmt.Errorf("range %d, want one that processes can be in", opts.Range)
	}
}

// RegisterHandler asks for events with the given codes; without a code, for all that are not reserved for handlers that
// name them. Events that have come before are delivered to the new handler alone, those first that came first.
//
//   - Completion: on return, no event can pass the handler by.
//   - Errors: a place that is taken or does not exist; those of the server, which must agree.
func (c *Client) RegisterHandler(ctx context.Context, codes []wire.Status, opts HandlerOptions, fn Handler) (HandlerID, error) {
	const op = "register event handler"
	sources, err := c.sources(&opts)
	if err != nil {
		return 0, fmt.Errorf("pmix %s: %w", op, err)
	}
	opts.Sources = sources
	codes = slices.Clone(codes)
	slices.Sort(codes)
	if len(codes) > 0 && codes[0] == wire.StatusMaxErrConstant {
		codes = nil // by which name a default handler goes on the wire
	}
	r := &registration{codes: slices.Compact(codes), opts: opts, fn: fn, pending: true}
	release, err := c.events.register.take(ctx)
	if err != nil {
		return 0, fmt.Errorf("pmix %s: %w", op, err)
	}
	defer release()
	if err := c.events.add(r); err != nil {
		return 0, fmt.Errorf("pmix %s %q: %w", op, opts.Name, err)
	}
	if fresh := c.events.count(r, +1); len(fresh) > 0 {
		if err := c.status(ctx, op, registerRequest(fresh)); err != nil {
			c.events.drop(r.id)
			c.events.count(r, -1)
			return 0, err
		}
	}
	c.events.open(r)
	return r.id, nil
}

// registerRequest asks the server for events, for those of a default handler by naming no code.
func registerRequest(codes []wire.Status) *wire.RegisterEventsRequest {
	if codes[0] == wire.StatusMaxErrConstant {
		return &wire.RegisterEventsRequest{}
	}
	return &wire.RegisterEventsRequest{Codes: codes}
}

// DeregisterHandler ends a registration. A call of the handler that has begun is not waited for.
//
//   - Errors: ErrNotFound; the context's; ErrLostConnection, the handler being gone all the same.
func (c *Client) DeregisterHandler(ctx context.Context, id HandlerID) error {
	const op = "deregister event handler"
	release, err := c.events.register.take(ctx)
	if err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	defer release()
	r := c.events.drop(id)
	if r == nil {
		return &StatusError{Op: op, Status: wire.StatusErrNotFound}
	}
	stale := c.events.count(r, -1)
	if len(stale) == 0 || c.isFinalized() {
		return nil
	}
	return c.tell(ctx, op, &wire.DeregisterEventsRequest{Codes: stale})
}

// Notify raises an event: with RangeProcLocal for the handlers of this process alone, otherwise through the server for
// those of others, too. The event's source is this process.
//
//   - Completion: the server has the event; handlers run later.
//   - Errors: those of the server; a value that cannot be sent.
func (c *Client) Notify(ctx context.Context, ev wire.Event) error {
	const op = "notify event"
	ev.Source, ev.Info = c.Proc(), ev.Pack()
	parsed, err := wire.ParseEvent(wire.Notification{Status: ev.Status, Source: ev.Source, Range: ev.Range, Info: ev.Info})
	if err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	if ev.Range != wire.RangeProcLocal {
		r := &wire.NotifyRequest{Status: ev.Status, Range: ev.Range, Info: ev.Info}
		if err := c.status(ctx, op, r); err != nil {
			return err
		}
	} else if c.isFinalized() {
		return fmt.Errorf("pmix %s: %w", op, ErrFinalized)
	}
	if c.hears(&parsed) {
		c.events.deliver(&Event{Event: parsed})
	}
	return nil
}

// hears reports whether an event of this process is for itself as well: the server does not send it back.
func (c *Client) hears(ev *wire.Event) bool {
	switch ev.Range {
	case wire.RangeRM:
		return false
	case wire.RangeCustom:
		return wire.AnyMatch(ev.Targets, []wire.Proc{c.Proc()})
	default:
		return true
	}
}

// tell sends a request that is not answered.
func (c *Client) tell(ctx context.Context, op string, r wire.Request) error {
	body, err := wire.AppendRequest(nil, r)
	if err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	tag, _ := c.conn.expect()
	defer c.conn.forget(tag)
	if err := c.conn.send(ctx, wire.AppendFrame(nil, 0, tag, body)); err != nil {
		return fmt.Errorf("pmix %s: %w", op, err)
	}
	return nil
}
