package logp

import (
	"errors"
	"fmt"
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
