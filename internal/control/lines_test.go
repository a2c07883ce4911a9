package control

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// There are 10 lines in 10 s, and one that counts the others.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		l := lines{report: r.add, window: lineWindow}
		for i := range 25 {
			l.add(fmt.Sprint(i))
		}
		synctest.Wait()
		if got := r.all(); len(got) != 10 || got[9] != "9" {
			t.Errorf("at first %q", got)
		}
		time.Sleep(lineWindow + 1)
		if got := r.all(); len(got) != 11 || got[10] != "15 more connections were closed" {
			t.Errorf("after the window %q", got)
		}
		for i := range 11 {
			l.add(fmt.Sprint(i))
		}
		l.stop()
		if got := r.all(); len(got) != 22 || got[21] != "1 more connections were closed" {
			t.Errorf("at the end %q", got)
		}
		l.add("late")
		l.stop()
		time.Sleep(time.Hour)
		if got := r.all(); len(got) != 22 {
			t.Errorf("an hour after the end %q", got[22:])
		}
	})
}

// A report function that blocks holds up nothing, and few lines wait for it. They come when it returns, in order.
func TestLinesBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r report
		release := make(chan struct{})
		l := lines{report: func(line string) { <-release; r.add(line) }, window: lineWindow}
		const windows, each = 6, 15
		began := time.Now()
		for range windows {
			for i := range each {
				l.add(fmt.Sprint(i))
			}
			time.Sleep(lineWindow)
			synctest.Wait()
		}
		between(t, "added", began, windows*lineWindow, windows*lineWindow)
		close(release)
		l.stop()
		got := r.all()
		if len(got) > maxQueued+2 {
			t.Errorf("%d lines, want at most %d", len(got), maxQueued+2)
		}
		told := 0
		for _, line := range got {
			var n int
			if _, err := fmt.Sscanf(line, "%d more connections", &n); err == nil {
				told += n
			} else {
				told++
			}
		}
		if told != windows*each || got[1] != "1" {
			t.Errorf("lines %q tell of %d, want %d in order", got, told, windows*each)
		}
	})
}

// Close does not wait for a Report that does not return, and no call begins afterwards.
func TestCloseWhileReporting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		calls, release := make(chan string, 100), make(chan struct{})
		ln, err := NewListener(ListenConfig{Secret: NewSecret(), Report: func(line string) {
			calls <- line
			<-release
		}}, []net.Listener{&failing{n, 5}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		ln.Close()
		ln.Close()
		between(t, "closed", began, 0, 2*stopWithin)
		close(release)
		time.Sleep(time.Hour)
		if len(calls) != 1 {
			t.Errorf("%d calls of Report, want the one that did not return", len(calls))
		}
	})
}
