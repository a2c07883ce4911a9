package express

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// step is something that may happen next.
type step struct {
	name string
	do   func(w *world)
}

// steps returns what may happen next.
func (w *world) steps() (all []step) {
	add := func(name string, do func(w *world)) { all = append(all, step{name, do}) }
	if w.phase == ready {
		add("begin", (*world).begin)
	}
	if w.phase != terminated && !w.client.IsOpen(0) && w.client.asked == 0 && !w.offer.there && len(w.links) < 3 {
		add("ask", func(w *world) {
			for !w.client.Trip(0) {
			}
		})
	}
	if w.client.asked > 0 && !w.offer.there {
		add("admit", (*world).admit)
	}
	if w.offer.there && w.phase != byLink {
		add("take", (*world).take)
	}
	if len(w.queue) > 0 {
		add("execute", (*world).execute)
	}
	if w.deaths > 0 && !w.dead {
		add("die", func(w *world) { w.deaths--; w.die() })
	}
	for i := range w.links {
		all = append(all, w.linkSteps(i)...)
	}
	return all
}

// linkSteps returns what may happen next on a socket.
func (w *world) linkSteps(i int) (all []step) {
	l := &w.links[i]
	add := func(name string, do func(w *world, l *link)) {
		all = append(all, step{fmt.Sprintf("%s on %d", name, i+1), func(w *world) { do(w, &w.links[i]) }})
	}
	if l.agentHas && len(l.requests) > 0 {
		add("serve", (*world).serve)
	}
	if l.peHas && w.phase == byLink && len(l.replies) > 0 && l.replies[0].number == w.number {
		add("reply", func(w *world, l *link) {
			value := l.replies[0].value
			l.replies = l.replies[1:]
			w.client.End(0)
			w.finish(value)
		})
	}
	if l.peHas && !l.agentHas && w.phase != terminated && len(l.replies) == 0 {
		add("notice", (*world).loseLink)
	}
	if w.cuts > 0 && l.agentHas { // what the agent has not read is lost, and the PE notices later
		add("cut", func(w *world, l *link) {
			w.cuts--
			l.agentHas, l.requests = false, nil
			w.server.Closed(me, l.id)
		})
	}
	if w.cuts > 0 && l.agentHas && len(l.replies) > 0 {
		add("cut with replies", func(w *world, l *link) {
			w.cuts--
			l.agentHas, l.requests, l.replies = false, nil, nil
			w.server.Closed(me, l.id)
		})
	}
	if w.cuts > 0 && l.peHas && w.phase == byLink { // the PE gives up; the agent may still read what was sent
		add("silence", func(w *world, l *link) { w.cuts--; w.loseLink(l) })
	}
	if w.cancels > 0 && l.peHas && w.phase == byLink {
		add("cancel", func(w *world, l *link) { w.cancels--; w.cancel(l) })
	}
	return all
}

// check says what is wrong with a state, in which nothing can happen any more if final is set.
func (w *world) check(final bool) error {
	var inOrder strings.Builder
	for i := range w.program {
		fmt.Fprint(&inOrder, i)
	}
	switch {
	case w.err != nil:
		return w.err
	case !strings.HasPrefix(inOrder.String(), w.executed):
		return fmt.Errorf("executed are %q, want each of %q once, in this order", w.executed, inOrder.String())
	case final && !w.dead && (w.phase != terminated || w.executed != inOrder.String()):
		return fmt.Errorf("nothing can happen any more, and executed are %q of %q, phase %d", w.executed, inOrder.String(), w.phase)
	default:
		return nil
	}
}

// explore visits each state that w can come to, and returns their number and the first mistake, with the way to it.
func explore(w *world) (states int, err error) {
	seen := map[string]bool{}
	var visit func(w *world, way []string) error
	visit = func(w *world, way []string) error {
		if key := w.key(); seen[key] {
			return nil
		} else {
			seen[key] = true
		}
		steps := w.steps()
		if err := w.check(len(steps) == 0); err != nil {
			return fmt.Errorf("after %s: %w", strings.Join(way, ", "), err)
		}
		for _, s := range steps {
			next := w.clone()
			s.do(next)
			if err := visit(next, append(slices.Clip(way), s.name)); err != nil {
				return err
			}
		}
		return nil
	}
	err = visit(w, nil)
	return len(seen), err
}

// Whatever is lost and whenever, each operation takes place once, in the order of the program, and returns its value.
// Nothing of a dead PE takes place after its death was acknowledged.
func TestExplore(t *testing.T) {
	for _, program := range []string{"fff", "fuf", "uffu", "ffuf"} {
		for _, faults := range [][3]int{{2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 1, 1}} {
			n, err := explore(newWorld(program, none, faults[0], faults[1], faults[2]))
			if err != nil {
				t.Errorf("%s, cuts, cancels, deaths %v: %v", program, faults, err)
			}
			t.Logf("%s, %v: %d states", program, faults, n)
		}
	}
}

// The search finds each mistake that an implementation could make.
func TestExploreFindsMistakes(t *testing.T) {
	for m := none + 1; m < mistakes; m++ {
		var err error
		for _, program := range []string{"fff", "fuf", "uffu"} {
			_, found := explore(newWorld(program, m, 2, 1, 1))
			err = errors.Join(err, found)
		}
		if err == nil {
			t.Errorf("mistake %d is not found", m)
		}
	}
}
