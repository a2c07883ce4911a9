package launch

import (
	"testing"
	"testing/synctest"
	"time"
)

// The countdown does not run while a job is stopped, even if the timer fires meanwhile.
func TestCountdownPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c countdown
		c.start(3 * time.Second)
		defer c.end()
		time.Sleep(2 * time.Second)
		c.pause()
		time.Sleep(10 * time.Second) // more than the limit
		<-c.over()
		if c.isOver() {
			t.Error("the countdown is over while the job is stopped")
		}
		begin := time.Now()
		<-c.over()
		if left := time.Since(begin); !c.isOver() || left != time.Second {
			t.Errorf("%v were left, want 1s", left)
		}
	})
}

// A job that is continued in time has the rest of its time.
func TestCountdownResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c countdown
		c.start(3 * time.Second)
		defer c.end()
		c.pause()
		time.Sleep(2 * time.Second)
		c.resume()
		c.resume() // a second call changes nothing
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
			t.Error("a job without a time limit has a countdown")
		}
	})
}
