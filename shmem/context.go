package shmem

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/goshmem/goshmem/internal/far"
)

// ctxShared is what all handles of a context share.
type ctxShared struct {
	team      *Team
	isDefault bool        // this is the default context, which lives until Finalize
	touched   far.Touched // the nodes that have operations of the context under way

	mu      sync.Mutex
	session bool
	ended   bool                // no handle is direct any more
	first   *Ctx                // the first handle of the default context; nil for others
	handles []weak.Pointer[Ctx] // all handles that With has made, and the first; empty for the default context
}

// setIdle notes whether operations of the context are under way to other nodes: Touched.Changed. A handle that With makes
// meanwhile is among the handles here, or looks at touched afterwards, because both hold mu.
func (m *ctxShared) setIdle(idle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.setDirect(idle)
	}
}

// endDirect makes Quiet take the slow way for good, on all handles but those that With has made of the default context.
func (m *ctxShared) endDirect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.setDirect(false)
}

// setDirect sets direct of all handles but those that With has made of the default context. The caller holds mu.
func (m *ctxShared) setDirect(on bool) {
	word := uint32(0)
	if on {
		word = 1
	}
	if m.first != nil {
		atomic.StoreUint32(&m.first.direct, word)
	}
	for _, p := range m.handles {
		if c := p.Value(); c != nil {
			atomic.StoreUint32(&c.direct, word)
		}
	}
}

// contexts are the contexts of a world that were not destroyed.
type contexts struct {
	sync.Mutex
	live map[*ctxShared]struct{}
}

// add adds a context that was made.
func (s *contexts) add(m *ctxShared) {
	s.Lock()
	defer s.Unlock()
	if s.live == nil {
		s.live = map[*ctxShared]struct{}{}
	}
	s.live[m] = struct{}{}
}

// remove removes a context that is being destroyed.
func (s *contexts) remove(m *ctxShared) {
	s.Lock()
	defer s.Unlock()
	delete(s.live, m)
}

// all returns the contexts.
func (s *contexts) all() []*ctxShared {
	s.Lock()
	defer s.Unlock()
	return slices.Collect(maps.Keys(s.live))
}

// endDirect makes Quiet find out that the world is finalized, on all handles of all contexts.
func (s *contexts) endDirect() {
	for _, m := range s.all() {
		m.endDirect()
	}
}

// addHandle adds a handle to those that fail once the context is destroyed. The caller holds mu, or is the only user
// of m.
func (m *ctxShared) addHandle(c *Ctx) {
	if m.isDefault {
		return
	}
	if len(m.handles) == cap(m.handles) { // before it grows, drop the handles that were collected
		m.handles = slices.DeleteFunc(m.handles, func(p weak.Pointer[Ctx]) bool { return p.Value() == nil })
	}
	m.handles = append(m.handles, weak.Make(c))
}

// disableHandles makes all handles of the context fail at the fast test: without a window and without a heap.
func (m *ctxShared) disableHandles() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.setDirect(false)
	for _, p := range m.handles {
		if c := p.Value(); c != nil {
			c.h, c.near = nil, 0
		}
	}
	m.handles = nil
	m.team.h.contexts.remove(m)
}

// NewCtx makes a context of the team. PE numbers in its operations are those of the team. The call is local: no other
// PE need make one. Waits on the context end when the team's With does.
//
// NewCtx takes no options, because those of C would save nothing here. Any goroutine may use any context at the same
// cost, so SHMEM_CTX_SERIALIZED and SHMEM_CTX_PRIVATE are no cheaper. A put is a store, so Fence and Quiet order
// stores for SHMEM_CTX_NOSTORE too.
//
//   - Errors: ErrTooMany if the team already has TeamConfig.NumContexts contexts and that is not 0; ErrDestroyed,
//     ErrFinalized, ErrArgument for a nil Team. A caller that can do without a context of its own uses the default
//     context.
//   - Concurrent calls: allowed.
//   - Source: shmem_team_create_ctx.
func (t *Team) NewCtx() (*Ctx, error) { return t.makeCtx("Team.NewCtx") }

// NewCtx makes a context of the team of all PEs.
//
//   - Errors: as Team.NewCtx.
//   - Concurrent calls: allowed.
//   - Source: shmem_ctx_create.
func (w *World) NewCtx() (*Ctx, error) {
	const op = "World.NewCtx"
	if err := w.checkUsable(op); err != nil {
		return nil, err
	}
	return w.team.makeCtx(op)
}

// makeCtx is NewCtx of a team and of a World.
func (t *Team) makeCtx(op string) (*Ctx, error) {
	if err := t.checkUsable(op); err != nil {
		return nil, err
	}
	g := t.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch limit := g.config.NumContexts; {
	case g.destroyed.Load():
		return nil, usage(op, ErrDestroyed, "team was destroyed before this call, want a live one")
	case limit > 0 && len(g.contexts) >= limit:
		return nil, usage(op, ErrTooMany, "the team has %d contexts, the most that its NumContexts %d allows; destroy one or use w.Ctx()", len(g.contexts), limit)
	}
	c := newCtx(g.plain, false)
	if g.contexts == nil {
		g.contexts = map[*ctxShared]struct{}{}
	}
	g.contexts[c.shared] = struct{}{}
	c.ctx = t.ctx
	return c, nil
}

// Destroy ends the context, after a Quiet. All its handles fail from then on, including those that With has made. No
// other call on the context may be under way. Team.Destroy and the last Finalize destroy the contexts that are left.
// On a nil Ctx Destroy does nothing.
//
//   - Errors: ErrArgument for the default context; those of Quiet.
//   - Source: shmem_ctx_destroy.
func (c *Ctx) Destroy() error {
	const op = "Ctx.Destroy"
	switch {
	case c == nil:
		return nil
	case c.shared == nil || c.h == nil || c.h.finalized():
		return c.check(op, ref{}, 0, 0)
	case c.shared.isDefault:
		return usage(op, ErrArgument, "the default context cannot be destroyed, want one that NewCtx returned")
	}
	if err := c.Quiet(); err != nil {
		return err
	}
	g := c.shared.team.group
	g.mu.Lock()
	delete(g.contexts, c.shared)
	g.mu.Unlock()
	c.shared.disableHandles()
	return nil
}

// Team returns the team whose PE numbers the context has. It returns nil for a context that was destroyed and for a
// Ctx that no call returned.
//
//   - Source: shmem_ctx_get_team.
func (c *Ctx) Team() *Team {
	if c == nil || c.shared == nil || c.h == nil || c.h.finalized() {
		return nil
	}
	return c.shared.team
}

// SessionStart announces that many operations on the context follow, up to SessionStop. Neither call completes or
// orders anything: Fence and Quiet do, as always. On a nil Ctx both do nothing.
//
// Both exist for programs that are ported from C. In shared memory, operations gain nothing from being batched, so a
// session changes nothing and takes no options. Its begin and end are checked.
//
//   - Errors: ErrArgument for a session within another one of the context; those of Quiet.
//   - Concurrent calls: allowed.
//   - Source: shmem_ctx_session_start.
func (c *Ctx) SessionStart() error { return c.setSession("Ctx.SessionStart", true) }

// SessionStop ends the session that SessionStart has begun.
//
//   - Errors: ErrArgument without a session; those of Quiet.
//   - Concurrent calls: allowed.
//   - Source: shmem_ctx_session_stop.
func (c *Ctx) SessionStop() error { return c.setSession("Ctx.SessionStop", false) }

// setSession begins or ends the session of a context.
func (c *Ctx) setSession(op string, on bool) error {
	if c == nil {
		return nil
	}
	if c.shared == nil || c.h == nil || c.h.finalized() {
		return c.check(op, ref{}, 0, 0)
	}
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	switch {
	case on && c.shared.session:
		return usage(op, ErrArgument, "a session of this context is under way, want SessionStop first")
	case !on && !c.shared.session:
		return usage(op, ErrArgument, "no session of this context is under way, want SessionStart first")
	}
	c.shared.session = on
	return nil
}
