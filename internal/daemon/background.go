package daemon

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// background is the goroutines of a step.
type background struct {
	// closing is closed when the step ends: all that serve has started returns then.
	closing chan struct{}
	serving sync.WaitGroup
	// retiring counts the goroutines that return when processes and jobs have ended.
	retiring sync.WaitGroup
	// spawns counts the further jobs that are being started.
	spawns sync.WaitGroup
}

func newBackground() *background { return &background{closing: make(chan struct{})} }

// serve runs f until the step closes.
func (b *background) serve(f func()) { b.serving.Go(f) }

// within runs f, which ends by itself some time, and says whether it did before
// the deadline.
func within(deadline time.Time, f func()) bool {
	done := make(chan struct{})
	go func() { f(); close(done) }()
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// reporter says what no event says, to the user and to the log.
type reporter struct {
	logger   zerolog.Logger
	tellUser func(text string) // nil: nobody listens
}

// notice tells the user and the log.
func (r *reporter) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.logger.Error().Msg(text)
	if r.tellUser != nil {
		r.tellUser(text)
	}
}
