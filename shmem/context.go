package shmem

import (
	"slices"
	"sync"
	"weak"
)

// common is what all handles of a context share.
type common struct {
	team     *Team
	standing bool // it is the default context

	mu      sync.Mutex
	session bool
	handles []weak.Pointer[Ctx] // unless it is the default context
}

// keep has a handle among those that die with the context. The caller holds mu.
func (m *common) keep(c *Ctx) {
	if m.standing {
		return
	}
	if len(m.handles) == cap(m.handles) { // it would grow: forget those that are gone
		m.handles = slices.DeleteFunc(m.handles, func(p weak.Pointer[Ctx]) bool { return p.Value() == nil })
	}
	m.handles = append(m.handles, weak.Make(c))
}

// end makes all handles fail, at their fast tests: they have no PEs and no heap.
func (m *common) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.handles {
		if c := p.Value(); c != nil {
			c.h, c.npes = nil, 0
		}
	}
	m.handles = nil
}

// NewCtx makes a context of the team: PE numbers in its operations are those of the
// team. It is this PE's own affair: no other PE need call it. Waits on it end with the
// team's With.
//
// It takes no options, as those of C have nothing to save here. Any goroutine may use any
// context at the same cost, so SHMEM_CTX_SERIALIZED and SHMEM_CTX_PRIVATE are no cheaper. A put
// is a store, so Fence and Quiet order stores also for SHMEM_CTX_NOSTORE.
//
//   - Errors: ErrTooMany for more contexts at once than TeamConfig.NumContexts, if that is
//     not 0; ErrDestroyed, ErrFinalized, ErrArgument for a nil Team. The default context
//     does for whoever can go on without.
//   - Concurrent calls: allowed.
//   - Source: shmem_team_create_ctx.
func (t *Team) NewCtx() (*Ctx, error) { return t.makeCtx("Team.NewCtx") }

// NewCtx makes a context of all PEs.
//
//   - Errors: as Team.NewCtx.
//   - Concurrent calls: allowed.
//   - Source: shmem_ctx_create.
func (w *World) NewCtx() (*Ctx, error) {
	const op = "World.NewCtx"
	if err := w.usable(op); err != nil {
		return nil, err
	}
	return w.team.makeCtx(op)
}

func (t *Team) makeCtx(op string) (*Ctx, error) {
	if err := t.usable(op); err != nil {
		return nil, err
	}
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	switch limit := g.config.NumContexts; {
	case g.gone.Load():
		return nil, usage(op, ErrDestroyed, "team was destroyed before this call, want a live one")
	case limit > 0 && len(g.contexts) >= limit:
		return nil, usage(op, ErrTooMany, "the team has %d contexts, of NumContexts %d; destroy one or use w.Ctx()", len(g.contexts), limit)
	}
	c := newCtx(g.plain)
	c.of.keep(c)
	if g.contexts == nil {
		g.contexts = map[*common]struct{}{}
	}
	g.contexts[c.of] = struct{}{}
	c.ctx = t.ctx
	return c, nil
}

// Destroy ends the context, after a Quiet. All its handles, also those that With has
// made, are dead then. No other call on it may be under way. Team.Destroy and the last
// Finalize destroy the contexts that are left. On a nil Ctx it does nothing.
//
//   - Errors: ErrArgument for the default context; those of Quiet.
//   - Source: shmem_ctx_destroy.
func (c *Ctx) Destroy() error {
	const op = "Ctx.Destroy"
	switch {
	case c == nil:
		return nil
	case c.of == nil || c.h == nil || c.h.slots.Load() == 0:
		return c.check(op, ref{}, 0, 0)
	case c.of.standing:
		return usage(op, ErrArgument, "the default context cannot be destroyed, want one that NewCtx returned")
	}
	if err := c.Quiet(); err != nil {
		return err
	}
	g := c.of.team.g
	g.mu.Lock()
	delete(g.contexts, c.of)
	g.mu.Unlock()
	c.of.end()
	return nil
}

// Team returns the team whose PE numbers the context has, nil for one that was
// destroyed or that nobody made.
//
//   - Source: shmem_ctx_get_team.
func (c *Ctx) Team() *Team {
	if c == nil || c.of == nil || c.h == nil || c.h.slots.Load() == 0 {
		return nil
	}
	return c.of.team
}

// SessionStart says that many operations on the context follow, up to SessionStop. It
// completes and orders nothing, and neither does SessionStop: Fence and Quiet do as always.
// On a nil Ctx both do nothing.
//
// Both are here for programs that are carried over from C: within shared memory, operations
// gain nothing by being made together, so a session changes nothing and takes no options.
// Its begin and end are checked.
//
//   - Errors: ErrArgument for a session within another one of the context; those of Quiet.
//   - Concurrent calls: allowed.
//   - Source: shmem_ctx_session_start.
func (c *Ctx) SessionStart() error { return c.turn("Ctx.SessionStart", true) }

// SessionStop ends what SessionStart has begun.
//
//   - Errors: ErrArgument without a session; those of Quiet.
//   - Concurrent calls: allowed.
//   - Source: shmem_ctx_session_stop.
func (c *Ctx) SessionStop() error { return c.turn("Ctx.SessionStop", false) }

// turn begins or ends the session of a context.
func (c *Ctx) turn(op string, on bool) error {
	if c == nil {
		return nil
	}
	if c.of == nil || c.h == nil || c.h.slots.Load() == 0 {
		return c.check(op, ref{}, 0, 0)
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	switch {
	case on && c.of.session:
		return usage(op, ErrArgument, "a session of this context is under way, want SessionStop before")
	case !on && !c.of.session:
		return usage(op, ErrArgument, "no session of this context is under way, want SessionStart before")
	}
	c.of.session = on
	return nil
}
