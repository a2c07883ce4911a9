package client

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Order is a handler's place in the chain of handlers.
type Order uint8

// Orders. An event passes the chain in this order: the handler that is first of all, handlers of one code, handlers of
// several codes, default handlers, the handler that is last of all. Within a category, the handler registered last
// comes first unless its order says otherwise.
const (
	OrderNone            Order = iota
	OrderFirst                 // first of all; at most one handler
	OrderLast                  // last of all; at most one handler
	OrderFirstInCategory       // at most one a category
	OrderLastInCategory        // at most one a category
	OrderPrepend               // directly after OrderFirstInCategory, as OrderNone
	OrderAppend                // directly before OrderLastInCategory
	OrderBefore                // directly before the handler that Beside names
	OrderAfter                 // directly after the handler that Beside names
)

// registration is one handler.
type registration struct {
	id      HandlerID
	codes   []codec.Status
	opts    HandlerOptions
	fn      Handler
	gone    bool     // the handler is not called any more
	since   uint64   // number of the last event before the registration
	pending bool     // the server has not confirmed the registration
	backlog []*Event // events that came while pending
}

// wants reports whether an event is for a handler: by its code, the processes that it affects, and its source.
func (r *registration) wants(ev *Event) bool {
	if len(r.codes) == 0 && ev.NonDefault || len(r.codes) > 0 && !slices.Contains(r.codes, ev.Status) {
		return false
	}
	if len(r.opts.Affected) > 0 && len(ev.Affected) > 0 && !codec.AnyMatch(r.opts.Affected, ev.Affected) {
		return false
	}
	return len(r.opts.Sources) == 0 || codec.AnyMatch(r.opts.Sources, []codec.Proc{ev.Source})
}

// chain holds the handlers in the order in which an event meets them.
type chain struct {
	first, last           *registration
	single, multi, others []*registration
}

// category returns the list that a handler belongs to.
func (c *chain) category(r *registration) *[]*registration {
	switch len(r.codes) {
	case 0:
		return &c.others
	case 1:
		return &c.single
	default:
		return &c.multi
	}
}

// matching returns the handlers of an event, in order.
func (c *chain) matching(ev *Event) []*registration {
	var out []*registration
	for _, r := range c.all() {
		if r.wants(ev) {
			out = append(out, r)
		}
	}
	return out
}

func (c *chain) all() []*registration {
	var out []*registration
	if c.first != nil {
		out = append(out, c.first)
	}
	out = append(append(append(out, c.single...), c.multi...), c.others...)
	if c.last != nil {
		out = append(out, c.last)
	}
	return out
}

// insert puts a handler at the place that its order asks for.
func (c *chain) insert(r *registration) error {
	switch r.opts.Order {
	case OrderFirst:
		return occupy(&c.first, r, "first of all")
	case OrderLast:
		return occupy(&c.last, r, "last of all")
	}
	list := c.category(r)
	at, err := c.position(*list, r)
	if err != nil {
		return err
	}
	*list = slices.Insert(*list, at, r)
	return nil
}

// occupy puts r into a place for a single handler.
func occupy(place **registration, r *registration, which string) error {
	if *place != nil {
		return fmt.Errorf("place %s is occupied by handler %q", which, (*place).opts.Name)
	}
	*place = r
	return nil
}

// position returns the index at which a handler is inserted into its category.
func (c *chain) position(list []*registration, r *registration) (int, error) {
	begin, end := 0, len(list)
	if end > 0 && list[0].opts.Order == OrderFirstInCategory {
		begin++
	}
	if end > begin && list[end-1].opts.Order == OrderLastInCategory {
		end--
	}
	switch r.opts.Order {
	case OrderNone, OrderPrepend:
		return begin, nil
	case OrderAppend:
		return end, nil
	case OrderFirstInCategory:
		if begin > 0 {
			return 0, fmt.Errorf("place first in category is occupied by handler %q", list[0].opts.Name)
		}
		return 0, nil
	case OrderLastInCategory:
		if end < len(list) {
			return 0, fmt.Errorf("place last in category is occupied by handler %q", list[end].opts.Name)
		}
		return len(list), nil
	case OrderBefore, OrderAfter:
		return c.positionBeside(list, r, begin, end)
	default:
		return 0, fmt.Errorf("order %d, want %d (none) to %d (after)", r.opts.Order, OrderNone, OrderAfter)
	}
}

// positionBeside returns the index next to the handler that r.opts.Beside names. Handlers that are first or last, of
// all or of the category, stay so.
func (c *chain) positionBeside(list []*registration, r *registration, begin, end int) (int, error) {
	name, after := r.opts.Beside, r.opts.Order == OrderAfter
	if i := slices.IndexFunc(list, func(q *registration) bool { return q.opts.Name == name }); i >= 0 && name != "" {
		if after {
			i++
		}
		if i < begin || i > end {
			return 0, fmt.Errorf("handler %q is the first or last of its category and stays so, want a place on its other side", name)
		}
		return i, nil
	}
	switch {
	case after && c.first != nil && c.first.opts.Name == name:
		return begin, nil
	case !after && c.last != nil && c.last.opts.Name == name:
		return end, nil
	}
	return 0, fmt.Errorf("no handler %q in the category, want the name of a handler with as many codes", name)
}

// remove removes a handler and returns it; nil if there is none of that number.
func (c *chain) remove(id HandlerID) *registration {
	for _, place := range []**registration{&c.first, &c.last} {
		if r := *place; r != nil && r.id == id {
			*place = nil
			return r
		}
	}
	for _, list := range []*[]*registration{&c.single, &c.multi, &c.others} {
		if i := slices.IndexFunc(*list, func(r *registration) bool { return r.id == id }); i >= 0 {
			r := (*list)[i]
			*list = slices.Delete(*list, i, i+1)
			return r
		}
	}
	return nil
}
