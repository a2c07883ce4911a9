// Package envvar has the table of all environment variables of goshmem: their names, values, meanings and
// parsers.
//
//   - Every part of goshmem reads the environment through this package.
//
//   - "oshrun info" prints the table, and docs/environment.md is generated from it.
//
//   - The package is pure: it reads variables through a Lookup, normally os.LookupEnv.
//
//   - Source: OpenSHMEM 1.5, section 8 (environment variables).
package envvar

//go:generate go run ./gen ../../docs/environment.md
