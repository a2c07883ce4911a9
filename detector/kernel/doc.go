// Package kernel learns of deaths.
package kernel

//go:generate go tool -modfile=../../tools/go.mod bpf2go -target bpfel -tags linux watch bpf/watch.bpf.c -- -Wall -Werror -mcpu=v2
