// Package envvar is the one table of the environment variables of goshmem: what
// they are called, what they may hold, what they mean, and how they are read.
//
// Every part of goshmem that looks at the environment does it through this
// package, and so do the table that "oshrun info" prints and the file
// docs/environment.md, which is generated from it. The package is pure: it never
// reads the environment itself but is given a Lookup, normally os.LookupEnv.
//
//   - Source: OpenSHMEM 1.5, section 8 (environment variables).
package envvar

//go:generate go run ./gen ../../docs/environment.md
