//go:build !race

package testenv

// Race says whether the program was built with the race detector.
const Race = false
