package logp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrOptions says that an experiment cannot be made.
var ErrOptions = errors.New("no such experiment")

// OptionError says which option is wrong; Name is a field's name in JSON.
type OptionError struct {
	Name, Value, Want string
}

// Error says what was found and what was wanted.
func (e *OptionError) Error() string {
	return fmt.Sprintf("--%s: %q, want %s", e.Name, e.Value, e.Want)
}

// Is makes the error an ErrOptions.
func (e *OptionError) Is(target error) bool { return target == ErrOptions }

// BadOption is an OptionError.
func BadOption(name, value, want string) error { return &OptionError{name, value, want} }

// Number is an option that is a number, and its limits.
type Number struct {
	Name             string
	Value, Low, High int
}

// Word is an option that is one of some words.
type Word struct {
	Name, Value string
	Words       []string
}

// CheckOptions is an OptionError about the first that is not as it has to be.
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

// CheckLatency is an OptionError unless L is a multiple of o: steps are counted in o.
func CheckLatency(latency, overhead int) error {
	if latency%overhead != 0 {
		return BadOption("latency", strconv.Itoa(latency), fmt.Sprintf("a multiple of the overhead, %d", overhead))
	}
	return nil
}
