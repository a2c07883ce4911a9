package control

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Secret is what the processes of a job share, and nobody else has. Its text form is Line; all other ways to print it
// hide it.
type Secret [32]byte

// NewSecret returns a random secret.
func NewSecret() Secret {
	var s Secret
	rand.Read(s[:])
	return s
}

const secretDigits = 2 * len(Secret{})

// Line returns the secret as a line: 64 hexadecimal digits and a newline. It is made for the standard input of a
// process, never for its arguments, its environment or a log.
func (s Secret) Line() string { return hex.EncodeToString(s[:]) + "\n" }

// Format prints that there is a secret, but not which, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(secret)") }

// ParseSecret parses what Line returns, with or without the newline. No error contains the text.
func ParseSecret(line string) (Secret, error) {
	var s Secret
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if len(line) != secretDigits {
		return s, fmt.Errorf("secret has %d characters, want %d hexadecimal digits", len(line), secretDigits)
	}
	if _, err := hex.Decode(s[:], []byte(line)); err != nil { // its text would show a character of the secret
		return Secret{}, fmt.Errorf("secret has characters other than hexadecimal digits, want %d digits", secretDigits)
	}
	return s, nil
}

// ReadSecret reads the line of a secret. It reads at most one byte more than such a line has.
func ReadSecret(r *bufio.Reader) (Secret, error) {
	var line []byte
	for len(line) <= secretDigits {
		b, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return Secret{}, fmt.Errorf("read secret: input ends after %d characters, want a line of %d hexadecimal digits", len(line), secretDigits)
		case err != nil:
			return Secret{}, fmt.Errorf("read secret: %w", err)
		case b == '\n':
			return ParseSecret(string(line))
		}
		line = append(line, b)
	}
	return Secret{}, fmt.Errorf("read secret: line has more than %d characters, want %d hexadecimal digits", secretDigits, secretDigits)
}
