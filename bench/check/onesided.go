package main

import (
	"context"
	"errors"
)

// oneSided is the group of one-sided operations between two PEs and the ping-pong. Each PE has its own processor.
var oneSided = group{
	run: func(ctx context.Context, b *bed) error {
		return errors.Join(
			b.records(ctx, goshmem, b.ours(2, b.rows.String(), "onesided"), ""),
			b.beside(ctx, oshmem, 2, "micro"),
			b.beside(ctx, plainC, 1, "plain"),
		)
	},
	limits: []limit{
		{row: "p/8", most: 5, peer: oshmem, factor: 1},
		{row: "put/8", most: 5, peer: oshmem, factor: 1},
		{row: "g/8", most: 5, peer: oshmem, factor: 1},
		{row: "get/8", most: 5, peer: oshmem, factor: 1},
		{row: "p_quiet/8", most: 9, peer: oshmem, factor: 1},
		{row: "put_quiet/8", most: 9, peer: oshmem, factor: 1},
		{row: "fetch_add/8", peer: plainC, factor: 1.5},
		{row: "fetch_add_spin/8", peer: plainC, factor: 1.5},

		{row: "put/64", peer: oshmem, factor: 1},
		{row: "put/1024", peer: oshmem, factor: 1},
		{row: "put/4096", peer: oshmem, factor: 1},
		{row: "put/65536", peer: oshmem, factor: sameSpeed},
		{row: "put/1048576", peer: oshmem, factor: sameSpeed},
		{row: "put_quiet/64", peer: oshmem, factor: 1},
		{row: "put_quiet/1024", peer: oshmem, factor: 1},
		{row: "put_quiet/4096", peer: oshmem, factor: 1},
		{row: "put_quiet/65536", peer: oshmem, factor: sameSpeed},
		{row: "put_quiet/1048576", peer: oshmem, factor: sameSpeed},
		{row: "get/64", peer: oshmem, factor: 1},
		{row: "get/1024", peer: oshmem, factor: 1},
		{row: "get/4096", peer: oshmem, factor: 1},
		{row: "get/65536", peer: oshmem, factor: sameSpeed},
		{row: "get/1048576", peer: oshmem, factor: sameSpeed},
		{row: "64_put_quiet/8", peer: oshmem, factor: 1},
		{row: "64_put_nbi_quiet/8", peer: oshmem, factor: 1},
		{row: "64_get_nbi_quiet/8", peer: oshmem, factor: 1},
		{row: "fetch_add/8", peer: oshmem, factor: 1},
		{row: "fetch_add_spin/8", peer: oshmem, factor: 1},
		{row: "fetch_add_line/8", peer: oshmem, factor: 1},
		{row: "fetch_add_wait/8", peer: oshmem, factor: 1},
		{row: "compare_swap/8", peer: oshmem, factor: 1},
		{row: "compare_swap_spin/8", peer: oshmem, factor: 1},
		{row: "compare_swap_line/8", peer: oshmem, factor: 1},
		{row: "compare_swap_wait/8", peer: oshmem, factor: 1},
		{row: "p_wait/8", peer: oshmem, factor: 1},
		{row: "ping_pong/8", peer: oshmem, factor: 1},

		{row: "p_quiet/8", peer: plainC},
		{row: "fetch_add_line/8", peer: plainC},
	},
}

// memcpySpeed requires 0.9 times the speed of C's memcpy.
const memcpySpeed = 1 / 0.9

// copies is the group of large puts and gets. They are compared with C's memcpy on memory of the same kind. The puts
// run a second time without the fast string instructions of some processors, where Go's own copy is slow.
var copies = group{
	run: func(ctx context.Context, b *bed) error {
		command := append([]string{"env", "GODEBUG=cpu.fsrm=off"}, b.ours(2, "^put/[0-9]{7}$", "onesided")...)
		return b.records(ctx, goshmem, command, noStrings)
	},
	limits: []limit{
		{row: "put/1048576", peer: plainC, factor: memcpySpeed},
		{row: "put/2097152", peer: plainC, factor: memcpySpeed},
		{row: "put/4194304", peer: plainC, factor: memcpySpeed},
		{row: "get/1048576", peer: plainC, factor: memcpySpeed},
		{row: "get/2097152", peer: plainC, factor: memcpySpeed},
		{row: "get/4194304", peer: plainC, factor: memcpySpeed},
		{row: "put/1048576" + noStrings, peer: plainC, theirs: "put/1048576", factor: memcpySpeed},
		{row: "put/2097152" + noStrings, peer: plainC, theirs: "put/2097152", factor: memcpySpeed},
		{row: "put/4194304" + noStrings, peer: plainC, theirs: "put/4194304", factor: memcpySpeed},
	},
}

const noStrings = "/no_fsrm"
