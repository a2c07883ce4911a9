package measure

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"time"
)

// Head has the first fields of a report.
type Head struct {
	Program string `json:"program"` // the command that measured
	Version int    `json:"version"` // version of the report's format
	Seed    uint64 `json:"seed"`
}

// Machine says in a report how large and how busy the machine was.
type Machine struct {
	CPUs int       `json:"cpus"`
	Load [2]string `json:"load"` // load of the machine over 1, 5 and 15 minutes, before and after
}

// MachineBefore returns the machine before the measurement.
func MachineBefore() Machine { return Machine{CPUs: runtime.NumCPU(), Load: [2]string{load()}} }

// NoteAfter notes the load after the measurement.
func (m *Machine) NoteAfter() { m.Load[1] = load() }

// load returns the machine's load over 1, 5 and 15 minutes, or "" if it is unknown.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return ""
}

// JoinFailures returns an error that lists the failures of a report, or nil if there are none.
func JoinFailures(failures []string) error {
	if len(failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(failures, "; "))
}

// Milliseconds returns a time in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Microseconds returns a time in microseconds.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
