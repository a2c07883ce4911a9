package control

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
)

// keyLabel separates the key of the control connections from everything else that is derived from a secret.
const keyLabel = "goshmem control ed25519 1"

// errStranger says that the peer does not have the secret.
var errStranger = errors.New("peer has another secret: it is not of this job")

// tlsConfig returns what both ends of a connection use. Both have the key of the job, and compare the key that the
// other end has proved to have with it. Names, times and authorities mean nothing.
func (s Secret) tlsConfig() (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, s[:], nil, keyLabel, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the key of control connections: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("derive the key of control connections: it has no public key")
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of control connections: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS13,
		ClientAuth:   tls.RequireAnyClientCert,
		// VerifyConnection below is the verification.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errStranger
			}
			if theirs, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !public.Equal(theirs) {
				return errStranger
			}
			return nil
		},
	}, nil
}
