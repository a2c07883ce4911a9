package main

// The contestants.
const (
	goshmem = "goshmem"
	oshmem  = "OSHMEM"
	plainC  = "C"
)

// limit is one promise, or with all bounds zero one comparison that is only
// shown. Bounds are on the median.
type limit struct {
	row    string
	unit   string  // of the row's values; "" is ns
	most   float64 // at most this much
	least  float64 // at least this much
	peer   string  // whom it is compared with
	factor float64 // at most so many times the peer's
}

// Rows that are no operations.
const (
	rowTEPS         = "graph500/harmonic_mean"
	rowConstruction = "graph500/construction"
	rowResident     = "graph500/max_rss"
	rowAllocations  = "allocations"
)

// limits are the promises, in the order of the report.
var limits = []limit{
	{row: "p/8", most: 5, peer: oshmem, factor: 1},
	{row: "put/8", most: 5, peer: oshmem, factor: 1},
	{row: "g/8", most: 5, peer: oshmem, factor: 1},
	{row: "get/8", most: 5, peer: oshmem, factor: 1},
	{row: "p_quiet/8", most: 9, peer: oshmem, factor: 1},
	{row: "put_quiet/8", most: 9, peer: oshmem, factor: 1},
	{row: "fetch_add/8", peer: plainC, factor: 1.5},
	{row: "fetch_add_spin/8", peer: plainC, factor: 1.5},
	{row: rowAllocations, unit: "packages with", most: 0.5},
	{row: rowTEPS, unit: "MTEPS", least: 500},
	{row: rowConstruction, unit: "s", most: 4},
	{row: rowResident, unit: "MiB", most: 300},
	{row: "output/plain/8", unit: "MB/s", least: 100},
	{row: "output/plain/100000", unit: "MB/s", least: 100},
	{row: "output/tag/8", unit: "MB/s", least: 100},
	{row: "output/tag/100000", unit: "MB/s", least: 100},
	{row: "output/raw/8", unit: "MB/s", least: 100},
	{row: rowOutputRSS, unit: "MiB", most: 32},
	{row: "startup/2", unit: "ms", most: 100, peer: oshmem, factor: 1},
	{row: "startup/8", unit: "ms", most: 200, peer: oshmem, factor: 1},
	{row: "startup/32", unit: "ms", most: 500, peer: oshmem, factor: 1},
	{row: "first_fence/32", unit: "ms", most: 60, peer: oshmem, factor: 1},
	{row: "first_fence/128", unit: "ms", most: 300},
	{row: "startup/128", unit: "ms"},
	{row: "mpich/16", unit: "ms", peer: mpich, factor: 1.2},

	{row: "p_quiet/8", peer: plainC},
	{row: "fetch_add_line/8", peer: plainC},
	{row: "fetch_add/8", peer: oshmem},
	{row: "fetch_add_spin/8", peer: oshmem},
	{row: "fetch_add_line/8", peer: oshmem},
	{row: "fetch_add_wait/8", peer: oshmem},
	{row: "p_wait/8", peer: oshmem},
	{row: "put/64", peer: oshmem},
	{row: "put_quiet/64", peer: oshmem},
	{row: "get/64", peer: oshmem},
	{row: "put/1024", peer: oshmem},
	{row: "put_quiet/1024", peer: oshmem},
	{row: "get/1024", peer: oshmem},
	{row: "put/4096", peer: oshmem},
	{row: "put_quiet/4096", peer: oshmem},
	{row: "get/4096", peer: oshmem},
	{row: "put/65536", peer: oshmem},
	{row: "put_quiet/65536", peer: oshmem},
	{row: "get/65536", peer: oshmem},
	{row: "put/1048576", peer: oshmem},
	{row: "put_quiet/1048576", peer: oshmem},
	{row: "get/1048576", peer: oshmem},
	{row: "barrier", peer: oshmem},
	{row: "sum_reduce/8", peer: oshmem},
	{row: "ping_pong/8", peer: oshmem},
	{row: "mpich/2", unit: "ms", peer: mpich},
	{row: "mpich/8", unit: "ms", peer: mpich},
}
