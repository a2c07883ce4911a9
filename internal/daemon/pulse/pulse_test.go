package pulse

import "testing"

// A PE that neither changes its word nor waits for others hangs, which is reported once. While it is ready to run, only
// time on a processor counts.
func TestPulse(t *testing.T) {
	var p Pulse
	for i, step := range []struct {
		after       int64
		look        Look
		moved, hung bool
	}{
		{after: 0, look: Look{Count: 1}},
		{after: 9, look: Look{Count: 1}},
		{after: 10, look: Look{Count: 1}, hung: true},
		{after: 30, look: Look{Count: 1}},
		{after: 31, look: Look{Count: 2}, moved: true},
		{after: 40, look: Look{Count: 2}},
		{after: 41, look: Look{Count: 2}, hung: true},
		{after: 50, look: Look{Count: 2, Waits: true}, moved: true},
		{after: 90, look: Look{Count: 2, Waits: true}},
		{after: 99, look: Look{Count: 2}}, // its wait ended just now
		{after: 100, look: Look{Count: 2, Ready: true}},
		{after: 200, look: Look{Count: 2, Ready: true}}, // without a processor
		{after: 210, look: Look{Count: 2, Ready: true, Used: 1}, hung: true},
		{after: 300, look: Look{Count: 3, Ready: true, Used: 31}, moved: true},
		{after: 309, look: Look{Count: 3, Used: 31}},
		{after: 320, look: Look{Count: 3, Ready: true, Used: 31}},
		{after: 321, look: Look{Count: 3, Used: 31}, hung: true},
	} {
		step.look.At = step.after
		if moved, hung := p.Beat(step.look, 10); moved != step.moved || hung != step.hung {
			t.Errorf("step %d: moved %t, hung %t; want %t, %t", i, moved, hung, step.moved, step.hung)
		}
	}
}

// A look shows a standstill only in comparison with an earlier look. A look is old if it precedes that one or the end
// of a time that does not count.
func TestLooks(t *testing.T) {
	const minute, hour = 60, 3600
	var p Pulse
	p.SkipTo(hour) // nothing to skip
	first := Look{Count: 1}
	if p.Stands(first) || p.IsOld(first) {
		t.Error("the first look shows a standstill, or is old")
	}
	p.Beat(first, hour)
	for _, x := range []Look{{Count: 2}, {Count: 1, Calls: true}, {Count: 1, Waits: true}} {
		if p.Stands(x) {
			t.Errorf("%+v shows a standstill", x)
		}
	}
	p.SkipTo(hour)
	if !p.IsOld(Look{At: minute}) || p.IsOld(Look{At: hour}) {
		t.Error("want looks within the skipped time to be old, and the one at its end not")
	}
	if moved, hung := p.Beat(Look{At: hour + minute, Count: 1}, hour); moved || hung {
		t.Errorf("moved %v, hung %v after a time of which one minute counts", moved, hung)
	}
}
