package tollgate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/tollgate/tollgate/clients/go/internal/clock"
)

// Defaults of [Config].
const (
	// DefaultDeadline is the deadline of each attempt of a call.
	DefaultDeadline = time.Second
	// DefaultRetryFor is the time in which a call is retried.
	DefaultRetryFor = 5 * time.Second
)

// Config contains the settings of a [Client]. Only Addresses is required.
type Config struct {
	// Addresses are the servers, as "host:port". Calls go to them in turn. Servers that
	// report themselves as not serving are skipped while another one serves. So is a server
	// after two deadlines in a row without an answer, until a health check succeeds.
	Addresses []string

	// TLS enables TLS. Default: nil, plain text. [LoadTLS] makes it from files.
	TLS *tls.Config

	// Token is sent as "authorization: Bearer Token". It consists of printable ASCII characters.
	// At most one of Token, TokenFile and TokenSource may be set. Without TLS the token travels
	// in plain text.
	Token string
	// TokenFile is a file with the token. It is read again when it changes.
	TokenFile string
	// TokenSource returns the token. It is called for every request and must be fast.
	TokenSource func(ctx context.Context) (string, error)

	// Namespace is the namespace of all names, in printable ASCII characters. Default: that of
	// the caller on the server.
	Namespace string

	// Deadline limits each attempt of a call; a wait adds to it, and bulk calls get five
	// times as much. Default: 1 s.
	Deadline time.Duration
	// RetryFor limits the time in which a call is retried, if the context has no earlier
	// deadline. Default: 5 s. Below 0: no retries.
	RetryFor time.Duration

	// DialOptions are added to those of the library, for example a stats handler.
	DialOptions []grpc.DialOption

	// Logger gets a line, at most one in 10 s for each policy and effect, when a rate could not be
	// checked: because FailOpen or FailClosed decided, or a middleware answered with an error.
	// Default: slog.Default().
	Logger *slog.Logger

	clock   *clock.Clock
	servers []*server
}

// withDefaults checks the settings and fills in the defaults.
func (c Config) withDefaults() (Config, error) {
	if len(c.Addresses) == 0 {
		return c, errors.New("tollgate: Config.Addresses is empty")
	}
	tokens := 0
	for _, set := range []bool{c.Token != "", c.TokenFile != "", c.TokenSource != nil} {
		if set {
			tokens++
		}
	}
	if tokens > 1 {
		return c, errors.New("tollgate: set one of Config.Token, TokenFile and TokenSource")
	}
	if !isPrintable(c.Token) {
		return c, missing("token", "expected "+printable)
	}
	if !isPrintable(c.Namespace) {
		return c, missing("namespace", "expected "+printable)
	}
	if c.Deadline < 0 {
		return c, fmt.Errorf("tollgate: Config.Deadline is %v, expected above 0", c.Deadline)
	}
	if c.Deadline == 0 {
		c.Deadline = DefaultDeadline
	}
	if c.RetryFor == 0 {
		c.RetryFor = DefaultRetryFor
	}
	for _, address := range c.Addresses {
		alone := len(c.Addresses) == 1
		c.servers = append(c.servers, &server{address: address, alone: alone, plainText: newPlainText()})
	}
	if c.clock == nil {
		c.clock = &clock.System
	}
	return c, nil
}

// LoadTLS returns TLS settings from PEM files. ca contains the authorities of the server's
// certificate. cert and key contain the certificate and key of the client, or are empty; they are
// read again for every connection. serverName is the name in the server's certificate. Empty: the
// host of the address.
func LoadTLS(ca, cert, key, serverName string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("tollgate: read the certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tollgate: %s has no certificate in PEM form", ca)
	}
	config := &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
	if cert == "" && key == "" {
		return config, nil
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("tollgate: load the client certificate: %w", err)
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	return config, nil
}
