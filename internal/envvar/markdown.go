package envvar

import (
	"fmt"
	"strings"
)

// Markdown returns docs/environment.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from internal/envvar by "go generate ./internal/envvar". Do not edit. -->

# Environment variables

"oshrun info" prints this table with the values in effect and where they come from.

| variable | deprecated name | value | default | set by | meaning |
|---|---|---|---|---|---|
`)
	for _, v := range table {
		alias := ""
		if v.Alias != "" {
			alias = code(v.Alias)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
			code(v.Name), alias, cell(v.Value), cell(v.Default), v.SetBy, cell(v.Doc))
	}
	b.WriteString(`
A deprecated name is read only where the variable itself is not set.

## Sizes

A size is an integer or a decimal number, then optionally one of the suffixes ` + "`k`, `m`, `g`, `t`" + `
in either case, which stand for the powers of 1024. Only the first letter after the number counts and what follows it is
ignored, so ` + "`512MB` and `1GiB`" + ` mean what they say in powers of 1024. A fraction of a byte is rounded up.

| value | bytes |
|---|---|
`)
	for _, s := range []string{"65536", "20k", "20kk", "3.1M", ".5m", "512MB", "1GiB", "1.5T"} {
		n, err := ParseSize(s)
		if err != nil {
			panic("envvar: example of the documentation: " + err.Error())
		}
		fmt.Fprintf(&b, "| %s | %d |\n", code(s), n)
	}
	b.WriteString(`
Empty, negative and zero sizes, anything that does not start with a number, unknown suffixes, and sizes of 2^63 bytes or
more are errors: the program does not start.
`)
	return b.String()
}

func code(s string) string { return "`" + s + "`" }

// cell escapes the characters that would end a cell or begin markup.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(s)
}
