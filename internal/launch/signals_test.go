package launch

import (
	"testing"
	"testing/synctest"
	"time"
)

// No time passes while a job is stopped, even if the timer fires meanwhile.
func TestCountdownPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c countdown
		c.start(3 * time.Second)
		defer c.end()
		time.Sleep(2 * time.Second)
		c.pause()
		time.Sleep(10 * time.Second) // it would have been over
		<-c.over()
		if c.isOver() {
			t.Error("over while stopped")
		}
		begin := time.Now()
		<-c.over()
		if left := time.Since(begin); !c.isOver() || left != time.Second {
			t.Errorf("%v were left, want 1s", left)
		}
	})
}

// A job that goes on in time has the rest of its time.
func TestCountdownResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c countdown
		c.start(3 * time.Second)
		defer c.end()
		c.pause()
		time.Sleep(2 * time.Second)
		c.resume()
		c.resume() // a second time changes nothing
		begin := time.Now()
		<-c.over()
		if left := time.Since(begin); !c.isOver() || left != 3*time.Second {
			t.Errorf("%v were left, want 3s", left)
		}
		var none countdown
		none.start(0)
		none.pause()
		none.resume()
		if none.over() != nil {
			t.Error("a job without a limit has one")
		}
	})
}
