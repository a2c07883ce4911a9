package envvar_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/internal/envvar"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]uint64{
		"1":                   1,
		"65536":               65536,
		"20k":                 20 << 10,
		"20K":                 20 << 10,
		"20kk":                20 << 10,
		"20kb of memory":      20 << 10,
		"3.1M":                3250586,
		".5m":                 512 << 10,
		"5.m":                 5 << 20,
		"512MB":               512 << 20,
		"1GiB":                1 << 30,
		"1.5g":                3 << 29,
		"2t":                  2 << 40,
		"+7":                  7,
		"  8k\n":              8 << 10,
		"0.5":                 1,
		"1e3":                 1000,
		"1.5E+3k":             1500 << 10,
		"2048e-3k":            2098, // 2.048 * 1024 = 2097.152
		"0.00000000000001":    1,
		"9223372036854775807": math.MaxInt64,
		"8388607.999999999T":  1<<63 - 1099, // beyond what a float64 holds
	} {
		if got, err := envvar.ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for s, cause := range map[string]string{
		"":                      "empty",
		" \t":                   "empty",
		"-1":                    "negative",
		"-":                     "negative",
		"0":                     "zero",
		"0.0g":                  "zero",
		"NaN":                   "not start with a number",
		"inf":                   "not start with a number",
		"+inf":                  "not start with a number",
		"+-1":                   "not start with a number",
		".":                     "not start with a number",
		".k":                    "not start with a number",
		"k":                     "not start with a number",
		"0x10":                  "suffix",
		"10 k":                  "suffix",
		"1,5g":                  "suffix",
		"1.2.3":                 "suffix",
		"1e":                    "suffix",
		"1p":                    "suffix",
		"9223372036854775808":   "2^63",
		"8388608T":              "2^63",
		"1e99":                  "2^63",
		"1e100":                 "exponent",
		"1e99999999999999999":   "exponent",
		strings.Repeat("1", 99): "characters",
	} {
		n, err := envvar.ParseSize(s)
		var bad *envvar.ValueError
		if !errors.As(err, &bad) || bad.Value != s || !strings.Contains(bad.Cause, cause) {
			t.Errorf("ParseSize(%q) = %d, %v, want a *ValueError whose cause contains %q", s, n, err, cause)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1K", 1025: "1025",
		1 << 30: "1G", 3 << 29: "1536M", 5 << 40: "5T", 1 << 50: "1024T",
	} {
		if got := envvar.FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "n")
		n = max(n>>rapid.IntRange(0, 62).Draw(t, "shift"), 1)
		if got, err := envvar.ParseSize(envvar.FormatSize(n)); err != nil || got != n {
			t.Fatalf("ParseSize(%q) = %d, %v, want %d", envvar.FormatSize(n), got, err, n)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"65536", "20kk", "3.1M", ".5m", "1GiB", " 1e3 ", "-1", "nan", "8388608T"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := envvar.ParseSize(s)
		if err != nil {
			var bad *envvar.ValueError
			if n != 0 || !errors.As(err, &bad) || bad.Value != s || bad.Cause == "" {
				t.Fatalf("ParseSize(%q) = %d, %v, want 0 and a *ValueError", s, n, err)
			}
			return
		}
		if n == 0 || n > math.MaxInt64 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
		if again, err := envvar.ParseSize(envvar.FormatSize(n)); err != nil || again != n {
			t.Fatalf("%q is %d bytes, written as %q: %d, %v", s, n, envvar.FormatSize(n), again, err)
		}
	})
}
