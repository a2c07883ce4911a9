package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/wire"
)

// registrations are the events that a process asked for.
type registrations struct {
	codes map[wire.Status]int // registrations a code; StatusMaxErrConstant stands for all other events
}

func (c *core) notify(at caller, _ *wire.NotifyRequest) { c.reply(at, wire.StatusSuccess) }

func (c *core) registerEvents(at caller, r *wire.RegisterEventsRequest) {
	codes := r.Codes
	if len(codes) == 0 {
		codes = []wire.Status{wire.StatusMaxErrConstant}
	}
	if len(at.events.codes)+len(codes) > maxRemembered {
		c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("more than %d event codes", maxRemembered))
		return
	}
	at.events.add(codes)
	c.reply(at, wire.StatusSuccess)
}

// deregisterEvents is not answered.
func (*core) deregisterEvents(at caller, r *wire.DeregisterEventsRequest) { at.events.remove(r.Codes) }

func (e *registrations) add(codes []wire.Status) {
	if e.codes == nil {
		e.codes = map[wire.Status]int{}
	}
	for _, code := range codes {
		e.codes[code]++
	}
}

func (e *registrations) remove(codes []wire.Status) {
	for _, code := range codes {
		if e.codes[code] > 1 {
			e.codes[code]--
			continue
		}
		delete(e.codes, code)
	}
}
