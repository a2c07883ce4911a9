/*
 * Loses some of the packets that come in on an interface, at random. The draws depend on the seed and on the number of
 * the packet only, so the same seed loses the packets of the same numbers.
 */
#include "../../../../detector/kernel/bpf/kernel.h"

#include <bpf/bpf_endian.h>

char gpl[] SEC("license") = "GPL";

enum { BPF_MAP_TYPE_ARRAY = 2 };
enum { TCX_NEXT = -1, TCX_DROP = 2 };

/* The head of the kernel's type. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
};

/* The type losses in losses_linux.go has the same layout. */
struct losses {
	__u64 seed;
	__u64 below; /* a draw below it loses the packet: of 2^32 */
	__u64 from; /* address of the sender, as in packets; 0: any */
	__u64 to; /* address of the receiver */
	__u64 seen; /* packets of these addresses */
	__u64 lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct losses);
} state SEC(".maps");

#define IPV4 0x0800
#define ADDRESSES_AT 26 /* bytes in an Ethernet frame before the addresses of IPv4 */

/* SplitMix64: the draw of a number. */
static __always_inline __u32 draw(__u64 seed, __u64 number)
{
	__u64 z = seed + (number + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (z ^ z >> 31) >> 32;
}

static __always_inline bool concerns(struct __sk_buff *packet, const struct losses *s)
{
	__u32 addresses[2];

	if (!s->from && !s->to)
		return 1;
	if (packet->protocol != bpf_htons(IPV4) || bpf_skb_load_bytes(packet, ADDRESSES_AT, addresses, sizeof(addresses)))
		return 0;
	return (!s->from || s->from == addresses[0]) && (!s->to || s->to == addresses[1]);
}

SEC("tcx/ingress")
int lose(struct __sk_buff *packet)
{
	__u32 zero = 0;
	struct losses *s = bpf_map_lookup_elem(&state, &zero);

	if (!s || !concerns(packet, s))
		return TCX_NEXT;
	if (draw(s->seed, __sync_fetch_and_add(&s->seen, 1)) >= s->below)
		return TCX_NEXT;
	__sync_fetch_and_add(&s->lost, 1);
	return TCX_DROP;
}
