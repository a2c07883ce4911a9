package envvar

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

const (
	sizeWant = `a size such as 1073741824, 512M or 1.5G (suffixes k, m, g, t: powers of 1024)`

	// These limits bound the work that a hostile value can cause. 2^64 has 20 digits.
	longestNumber   = 64
	largestExponent = 99
)

// ParseSize parses a size in bytes as OpenSHMEM spells it.
//
//   - Number: an integer or a decimal number, optionally with an exponent. A fraction of a byte is rounded up.
//   - Suffix: optionally k, m, g or t in either case, for a power of 1024. Text after that letter is ignored,
//     so "512MB", "1GiB" and "20kk" are valid.
//   - Range: 1 to 2^63-1 bytes.
//   - Errors: a *ValueError.
//   - Source: OpenSHMEM 1.5, section 8, SHMEM_SYMMETRIC_SIZE.
func ParseSize(s string) (uint64, error) {
	bad := func(cause string) (uint64, error) {
		return 0, &ValueError{Value: s, Want: sizeWant, Cause: cause}
	}
	text := strings.TrimSpace(s)
	if text == "" {
		return bad("it is empty")
	}
	if text[0] == '-' {
		return bad("it is negative")
	}
	number, suffix := cutNumber(strings.TrimPrefix(text, "+"))
	if number == "" {
		return bad("it does not start with a number")
	}
	if len(number) > longestNumber {
		return bad("the number has more than " + strconv.Itoa(longestNumber) + " characters")
	}
	if e := exponent(number); e > largestExponent || e < -largestExponent {
		return bad("the exponent is beyond " + strconv.Itoa(largestExponent))
	}
	shift, ok := suffixShift(suffix)
	if !ok {
		return bad("unknown suffix " + strconv.Quote(suffix))
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return bad("it is not a number")
	}
	value.Mul(value, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), shift)))
	if value.Sign() == 0 {
		return bad("it is zero")
	}
	n := ceil(value)
	if !n.IsInt64() {
		return bad("it is 2^63 bytes or more")
	}
	return n.Uint64(), nil
}

// FormatSize writes a size in the largest unit that divides it. ParseSize returns the same number.
func FormatSize(n uint64) string {
	if n == 0 {
		return "0"
	}
	const suffixes = " KMGT"
	i := 0
	for i < len(suffixes)-1 && n%1024 == 0 {
		n /= 1024
		i++
	}
	return strings.TrimSpace(strconv.FormatUint(n, 10) + suffixes[i:i+1])
}

// cutNumber splits s after its leading decimal number, which may have a point
// and an exponent. An e without an exponent belongs to the rest.
func cutNumber(s string) (number, rest string) {
	whole := digits(s)
	i, n := whole, whole
	if strings.HasPrefix(s[i:], ".") {
		fraction := digits(s[i+1:])
		i, n = i+1+fraction, n+fraction
	}
	if n == 0 {
		return "", s
	}
	if exp := s[i:]; exp != "" && exp[0]|0x20 == 'e' {
		sign := 1
		if len(exp) > 1 && (exp[1] == '+' || exp[1] == '-') {
			sign = 2
		}
		if n := digits(exp[sign:]); n > 0 {
			i += sign + n
		}
	}
	return s[:i], s[i:]
}

// digits returns the length of the run of decimal digits that s starts with.
func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// exponent returns the exponent of a number, 0 if it has none.
func exponent(number string) int {
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return 0
	}
	e, err := strconv.Atoi(number[i+1:])
	if err != nil { // too large for an int
		return largestExponent + 1
	}
	return e
}

// suffixShift returns the power of two that the first letter of s stands for.
func suffixShift(s string) (shift uint, ok bool) {
	if s == "" {
		return 0, true
	}
	switch unicode.ToLower(rune(s[0])) {
	case 'k':
		return 10, true
	case 'm':
		return 20, true
	case 'g':
		return 30, true
	case 't':
		return 40, true
	}
	return 0, false
}

// ceil returns the smallest integer that is at least r, for r above 0.
func ceil(r *big.Rat) *big.Int {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}
