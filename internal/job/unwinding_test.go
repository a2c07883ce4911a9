package job

import (
	"runtime"
	"testing"
)

// deep calls f below n more frames on the stack.
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
}

// recovers calls f and recovers its panic, if any.
func recovers(f func()) {
	defer func() { _ = recover() }()
	f()
}

// Unwinding tells a stack that unwinds from one that does not, whatever is between the deferred function and the call.
// A panic that was recovered before does not count.
func TestUnwinding(t *testing.T) {
	var got string
	look := func() { got = Unwinding() }
	inGoroutine := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	const panics, exits = "panics", "ends by runtime.Goexit"
	for what, test := range map[string]struct {
		run  func()
		want string
	}{
		"plain":    {look, ""},
		"deferred": {func() { defer look() }, ""},
		"deep":     {func() { deep(1000, look) }, ""},
		"panic":    {func() { recovers(func() { defer look(); panic(1) }) }, panics},
		"nil panic": {func() {
			recovers(func() { defer look(); panic(nil) }) //nolint:govet // on purpose
		}, panics},
		"closure":          {func() { recovers(func() { defer func() { look() }(); panic(1) }) }, panics},
		"deep in deferred": {func() { recovers(func() { defer deep(1000, look); panic(1) }) }, panics},
		"panic deep down":  {func() { recovers(func() { defer look(); deep(1000, func() { panic(1) }) }) }, panics},
		"index":            {func() { recovers(func() { defer look(); _ = []int{}[len(got)] }) }, panics},
		"nested":           {func() { recovers(func() { defer look(); defer panic(2); panic(1) }) }, panics},
		"recovered here": {func() {
			defer func() { _ = recover(); look() }()
			panic(1)
		}, panics},
		"recovered in a returned function": {func() { recovers(func() { panic(1) }); look() }, ""},
		"recovered by a later defer":       {func() { defer look(); recovers(func() { panic(1) }) }, ""},
		"recovered by an earlier one":      {func() { defer look(); defer func() { _ = recover() }(); panic(1) }, ""},
		"recovered while another goes on": {func() {
			recovers(func() { defer func() { recovers(func() { panic(2) }); look() }(); panic(1) })
		}, panics},
		"Goexit":           {func() { inGoroutine(func() { defer look(); runtime.Goexit() }) }, exits},
		"Goexit, closure":  {func() { inGoroutine(func() { defer func() { look() }(); runtime.Goexit() }) }, exits},
		"a goroutine ends": {func() { inGoroutine(look) }, ""},
		"panic elsewhere":  {func() { recovers(func() { defer inGoroutine(look); panic(1) }) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			got = "not asked"
			test.run()
			if got != test.want {
				t.Errorf("Unwinding returns %q, want %q", got, test.want)
			}
		})
	}
}

func BenchmarkUnwinding(b *testing.B) {
	deep(10, func() {
		for range b.N {
			_ = Unwinding()
		}
	})
}
