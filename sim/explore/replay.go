package explore

import (
	"fmt"
	"slices"
	"strings"
)

// afterAll is more actions than a step has.
const afterAll = 1 << 10

// String returns the choice as traces print it.
func (c Choice) String() string {
	text := ""
	switch c.Kind {
	case Enter:
		text = fmt.Sprintf("%d calls", c.P)
	case Deliver:
		text = fmt.Sprintf("%d <- %d", c.P, c.Q)
	case News:
		text = fmt.Sprintf("%d learns that %d is dead", c.P, c.Q)
	case Die:
		text = fmt.Sprintf("%d dies", c.P)
	case Cut:
		text = fmt.Sprintf("from dead %d to %d all but %d messages are lost", c.Q, c.P, c.Keep)
	case Lose:
		text = fmt.Sprintf("%d <- %d is lost", c.P, c.Q)
	case Tick:
		text = fmt.Sprintf("%d's clock ticks", c.P)
	case TickAll:
		text = "all clocks tick"
	case Own:
		text = fmt.Sprintf("%d makes choice %d", c.P, c.Q)
	}
	switch {
	case c.Dies && c.Keep >= afterAll:
		text += ", and it dies after all of that"
	case c.Dies:
		text += fmt.Sprintf(", and it dies after %d actions", c.Keep)
	}
	return text
}

// Replay runs those of the choices that can happen, and then, in a fixed order, all that is left to
// happen. It returns what has happened, and what is wrong.
func Replay(sys System, faults Faults, choices []Choice, log func(format string, args ...any)) ([]Choice, error) {
	w, err := newWorld(sys, faults)
	if err != nil {
		return nil, err
	}
	w.log = log
	var done []Choice
	for _, c := range choices {
		if !w.can(c) {
			continue
		}
		done = append(done, c)
		if err := w.do(c); err != nil {
			return done, err
		}
	}
	return w.finish(done)
}

// finish lets all happen that is left, and checks the end of the run.
func (w *world) finish(done []Choice) ([]Choice, error) {
	for {
		c, ok := w.first()
		if !ok {
			return done, w.sys.Check(w.group(true))
		}
		done = append(done, c)
		if err := w.do(c); err != nil {
			return done, err
		}
	}
}

// first returns the choice with the lowest number. Clocks tick when nothing else can happen.
func (w *world) first() (Choice, bool) {
	if !w.isIdle() {
		must := slices.DeleteFunc(slices.Clone(w.ready.list), func(slot int32) bool { return w.isOptional(int(slot)) })
		return w.choice(int(slices.Min(must))), true
	}
	if c := (Choice{Kind: TickAll}); w.can(c) && w.unfinished() {
		return c, true
	}
	return Choice{}, false
}

// Shrink leaves out choices, in ever smaller portions, as long as the run still goes wrong. It returns
// the shortest run that it has found.
func Shrink(f *Failure, faults Faults) *Failure {
	best := *f
	best.dropCalls(faults)
	for size := max(len(best.Choices)/2, 1); ; {
		smaller := false
		for at := 0; at < len(best.Choices); {
			try := slices.Delete(slices.Clone(best.Choices), at, min(at+size, len(best.Choices)))
			done, err := Replay(best.System, faults, try, nil)
			if err == nil {
				at += size
				continue
			}
			// Only what did happen is kept: Replay does the rest by itself.
			best.Choices, best.Err, smaller = try, err, true
			if len(done) < len(try) {
				best.Choices = done
			}
		}
		if size == 1 && !smaller {
			return &best
		}
		if !smaller || size > 1 {
			size = max(size/2, 1)
		}
	}
}

// Shorter is a System that can leave out one of its calls.
type Shorter interface{ Without(call int) System }

// dropCalls leaves out calls as long as the run still goes wrong.
func (f *Failure) dropCalls(faults Faults) {
	for call := f.System.Calls() - 1; call >= 0 && f.System.Calls() > 1; call-- {
		s, ok := f.System.(Shorter)
		if !ok {
			return
		}
		try := s.Without(call)
		if done, err := Replay(try, faults, f.Choices, nil); err != nil {
			*f = Failure{try, done, err}
		}
	}
}

// Trace returns the run of a failure in readable form.
func Trace(f *Failure, faults Faults) string {
	var b strings.Builder
	fmt.Fprintln(&b, f.System)
	_, err := Replay(f.System, faults, f.Choices, func(format string, args ...any) {
		fmt.Fprintf(&b, format+"\n", args...)
	})
	if err != nil {
		fmt.Fprintln(&b, "WRONG:", err)
	}
	return b.String()
}
