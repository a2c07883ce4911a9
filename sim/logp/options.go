package logp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrOptions reports options of which no experiment can be made.
var ErrOptions = errors.New("no such experiment")

// OptionError reports an option that is wrong. Name is its name in JSON and on the command line.
type OptionError struct {
	Name, Value, Want string
}

// Error says which option has which value, and what is wanted.
func (e *OptionError) Error() string {
	return fmt.Sprintf("--%s: %q, want %s", e.Name, e.Value, e.Want)
}

// Is reports whether target is ErrOptions.
func (e *OptionError) Is(target error) bool { return target == ErrOptions }

// BadOption returns an OptionError.
func BadOption(name, value, want string) error { return &OptionError{name, value, want} }

// Number is an option that is a number, with its limits.
type Number struct {
	Name             string
	Value, Low, High int
}

// Word is an option that is one of several words.
type Word struct {
	Name, Value string
	Words       []string
}

// CheckOptions returns an OptionError for the first option that is out of its limits.
func CheckOptions(numbers []Number, words []Word) error {
	for _, n := range numbers {
		if n.Value < n.Low || n.Value > n.High {
			return BadOption(n.Name, strconv.Itoa(n.Value), fmt.Sprintf("%d to %d", n.Low, n.High))
		}
	}
	for _, w := range words {
		if !slices.Contains(w.Words, w.Value) {
			return BadOption(w.Name, w.Value, strings.Join(w.Words, ", "))
		}
	}
	return nil
}

// CheckLatency returns an OptionError unless L is a multiple of o, in which steps are counted.
func CheckLatency(latency, overhead int) error {
	if latency%overhead != 0 {
		return BadOption("latency", strconv.Itoa(latency), fmt.Sprintf("a multiple of the overhead, %d", overhead))
	}
	return nil
}
