package node

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"
)

// The protocols of the cluster port, told apart by ALPN.
const (
	protoRaft    = "raft/1"
	protoForward = "forward/1"
)

// certName is the one host name in every minted certificate: the right to be
// here comes from the authority, not from where a node lives.
const certName = "node.sluice.internal"

const hkdfInfo = "sluice cluster authority 1"

// Minted certificates live in memory only and are made anew at each start, so
// their validity proves nothing; it is wide open so that a node with a wrong
// clock can still talk to the others.
var (
	certNotBefore = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	certNotAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// credentials are what both sides of every connection use.
type credentials struct {
	cert tls.Certificate
	pool *x509.CertPool
}

// newCredentials loads the configured files, or derives the authority from the
// secret and mints a certificate for node id. An empty secret derives as well:
// Open allows it on loopback only.
func newCredentials(o Options, id string) (*credentials, error) {
	if o.CAFile != "" {
		return loadCredentials(o)
	}
	seed, err := hkdf.Key(sha256.New, []byte(o.Secret), nil, hkdfInfo, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the cluster authority: %w", err)
	}
	caKey := ed25519.NewKeyFromSeed(seed)
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "sluice cluster"},
		NotBefore:             certNotBefore,
		NotAfter:              certNotAfter,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("making the cluster authority: %w", err)
	}
	if ca, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("making the cluster authority: %w", err)
	}
	cert, err := mint(ca, caKey, id)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &credentials{cert: cert, pool: pool}, nil
}

func mint(ca *x509.Certificate, caKey ed25519.PrivateKey, id string) (tls.Certificate, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the node key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the node certificate: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id},
		DNSNames:     []string{certName},
		NotBefore:    certNotBefore,
		NotAfter:     certNotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, pub, caKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the node certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func loadCredentials(o Options) (*credentials, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the cluster certificate %s: %w", o.CertFile, err)
	}
	pem, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("loading the cluster authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("loading the cluster authority: %s holds no certificate", o.CAFile)
	}
	return &credentials{cert: cert, pool: pool}, nil
}

// server returns the configuration of the listening side.
func (c *credentials) server() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{c.cert},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              c.pool,
		NextProtos:             []string{protoRaft, protoForward},
		SessionTicketsDisabled: true,
	}
}

// client returns the configuration of the dialling side for one protocol.
func (c *credentials) client(proto string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{c.cert},
		NextProtos:   []string{proto},
		ServerName:   certName,
		// The chain is verified below, without the host name.
		InsecureSkipVerify: true,
		VerifyConnection:   c.verifyServer,
	}
}

func (c *credentials) verifyServer(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("peer sent no certificate")
	}
	inter := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		inter.AddCert(cert)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: c.pool, Intermediates: inter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errOtherSecret, err)
	}
	return nil
}
