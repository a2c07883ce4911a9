// Package measure has what measurements made of many jobs share: checks of their options (options.go), the order of their
// jobs (jobs.go), and the fields and errors of their reports (report.go).
package measure

import (
	"fmt"
	"slices"
	"strings"
)

// CheckNumbers returns an error that names the flag unless there are numbers, all from least to most. of says in the
// error what the numbers count.
func CheckNumbers(flag string, numbers []int, least, most int, of string) error {
	for _, n := range numbers {
		if n < least || n > most {
			return fmt.Errorf("%s: %d, want %d to %d %s", flag, n, least, most, of)
		}
	}
	if len(numbers) == 0 {
		return fmt.Errorf("%s: nothing, want %d to %d %s", flag, least, most, of)
	}
	return nil
}

// CheckNumber is CheckNumbers for a flag that takes one number.
func CheckNumber(flag string, n, least, most int, of string) error {
	return CheckNumbers(flag, []int{n}, least, most, of)
}

// CheckWords returns an error that names the flag unless there are words, all of them known.
func CheckWords(flag string, words, known []string) error {
	for _, w := range words {
		if !slices.Contains(known, w) {
			return fmt.Errorf("%s: %q, want some of %s", flag, w, strings.Join(known, ", "))
		}
	}
	if len(words) == 0 {
		return fmt.Errorf("%s: nothing, want some of %s", flag, strings.Join(known, ", "))
	}
	return nil
}

// FirstError returns the first error of several checks, or nil if all passed.
func FirstError(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}
