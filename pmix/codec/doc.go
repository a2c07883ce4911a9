// Package codec encodes and decodes the PMIx v4 wire format: the connection handshake, frame headers, bfrops v41
// buffers of the non-described kind, and the messages built from them.
//
// A message body is a sequence of packed groups. Every group starts with an int32 count and continues with that many
// values of one type; values inside a structure carry no count. Integers wider than a byte are flex128: seven bits per
// byte, least significant first; the ninth byte of a 64-bit number holds eight bits. Signed integers are zigzag coded
// first.
//
// Encoder and Decoder have a method for each basic kind. Structures are packed by functions packX and unpackX, and
// every Request has its encode and decode.
//
// The package is pure: it works on byte slices; only ReadFrame, ReadHandshake and ReadToolReply read from a stream. It
// never logs and never reads the clock. Decoders never panic, and allocate no more than a small multiple of the bytes
// that they read.
//
//   - Source: PMIx Standard 4.1 for names and numbers; the byte layout was taken from frames exchanged with libpmix
//     4.2.2 (testdata).
package codec
